// Package picture draws what a report shows about rows: columns, relations between them, rows as points, and images.
// Data (Columns, NewCorrelations, NewPanel, ContactSheet) is computed from tables; drawings (NewCard, NewHeatMaps,
// NewScatter, NewSheets) are positions and paths that a template of the report puts into its page.
package picture
