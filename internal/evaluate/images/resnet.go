package images

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// resNet is a residual network (arXiv 1512.03385): a convolution that halves the image, three residual blocks with 16,
// 32 and 64 channels, and the mean pixel. The second and third block halve it again. Blocks begin as their shortcuts,
// in place of batch normalization ([nn.Residual]). Its settings were chosen on Fashion-MNIST's training images: trained
// on 10,000 of them, it recognizes 0.882 of 10,000 others, and [small] 0.854.
var resNet = yardstick{epochs: 5, rate: 6e-3, falls: true, layers: func(image partition.Image) []nn.Spec {
	const leak = 0.1
	layers := []nn.Spec{nn.Conv2D{Out: 16, Kernel: 4, Stride: 2, Pad: 1}, nn.LeakyReLU(leak)}
	for _, channels := range []int{16, 32, 64} {
		block, stride := nn.Residual{}, 1
		if channels > 16 {
			stride = 2
			block.Shortcut = []nn.Spec{nn.Conv2D{Out: channels, Kernel: 1, Stride: stride}}
		}
		block.Body = []nn.Spec{
			nn.Conv2D{Out: channels, Kernel: 3, Stride: stride, Pad: 1}, nn.LeakyReLU(leak),
			nn.Conv2D{Out: channels, Kernel: 3, Stride: 1, Pad: 1, Init: nn.Zeros},
		}
		layers = append(layers, block, nn.LeakyReLU(leak))
	}
	return append(layers, nn.Pixel{})
}}

// ResNetAccuracy is the share of test images that a residual network recognizes which was trained on other images.
// The figures stand beside those of benchmarks that score images so. It takes about 100 seconds of a core for 60,000
// images of 28 x 28 pixels. NOT PRIVATE.
func ResNetAccuracy(ctx context.Context, train, test *idx.Images, classes int) (float64, error) {
	if err := (Input{Synthetic: train, Test: test, Train: test}).check(); err != nil {
		return 0, fmt.Errorf("images: %w", err)
	}
	return resNet.accuracyOf(ctx, train, test, classes)
}
