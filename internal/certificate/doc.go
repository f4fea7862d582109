// Package certificate states the guarantee of a run in a small JSON file that accompanies the synthetic rows
// ([New], [Read], [Certificate.WriteFile]). [Certificate.Verify] recomputes it from the ledger, except the
// fields in [Stated]. It never contains a figure computed from real rows without noise.
package certificate
