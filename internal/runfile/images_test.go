package runfile

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const twoChannels = `name: bars
label: y
format: idx
image: {height: 4, width: 4, channels: 2}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 32}
  - {name: y, kind: categorical, categories: [left, right]}
`

func TestImagesOfTwoChannelsAreRefused(t *testing.T) {
	two := partitiontest.Schema(t, twoChannels)
	s := DefaultSpec()
	s.Pipeline = "embed"
	if err := s.checkImages(two); err == nil || !strings.Contains(err.Error(), "2 channels") {
		t.Errorf("two channels: %v", err)
	}
}
