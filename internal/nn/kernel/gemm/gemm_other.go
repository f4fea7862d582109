//go:build !amd64 || noasm

package gemm

import "github.com/conclave-dp/conclave/internal/nn/kernel"

func multiply(c, a, b kernel.Matrix, e Epilogue) { multiplyPortable(c, a, b, e) }
