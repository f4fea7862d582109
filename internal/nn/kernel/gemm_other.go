//go:build !amd64 || noasm

package kernel

func gemm(c, a, b Matrix, e Epilogue) { gemmPortable(c, a, b, e) }
