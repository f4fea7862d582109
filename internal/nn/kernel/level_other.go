//go:build !amd64 || noasm

package kernel

func detect() Level { return Portable }
