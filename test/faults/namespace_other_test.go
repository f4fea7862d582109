//go:build !linux

package faults

import "errors"

func runEnclosed(string) (int, error) { return 0, errors.New("only Linux has network namespaces") }

func enclose() error { return errors.New("only Linux has network namespaces") }
