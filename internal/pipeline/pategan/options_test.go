package pategan

import (
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestDefaultOptionsAreValid(t *testing.T) {
	testkit.Must(t, DefaultOptions().Validate())
}

// Each rule is broken alone, and its message names the field.
func TestValidateNamesTheField(t *testing.T) {
	nan := math.NaN()
	for field, spoil := range map[string]func(*Options){
		"mechanism":               func(o *Options) { o.Mechanism = "max" },
		"votes":                   func(o *Options) { o.Votes = Coin },
		"release":                 func(o *Options) { o.Release = "all" },
		"labels":                  func(o *Options) { o.Labels = -1 },
		"queries":                 func(o *Options) { o.Queries = 1 },
		"noise":                   func(o *Options) { o.Noise = -1 },
		"class_share":             func(o *Options) { o.ClassShare = 1 },
		"threshold":               func(o *Options) { o.Threshold = 1.1 },
		"threshold_noise":         func(o *Options) { o.ThresholdNoise = 0 },
		"quorum":                  func(o *Options) { o.Quorum = 0 },
		"deadline":                func(o *Options) { o.Deadline = nan },
		"teacher.model":           func(o *Options) { o.Teacher.Model = "tree" },
		"teacher.hidden":          func(o *Options) { o.Teacher.Hidden = 0 },
		"teacher.steps":           func(o *Options) { o.Teacher.Steps = 0 },
		"teacher.batch":           func(o *Options) { o.Teacher.Batch = 0 },
		"teacher.training":        func(o *Options) { o.Teacher.Training = 0 },
		"teacher.rate":            func(o *Options) { o.Teacher.Rate = 0 },
		"teacher.decay":           func(o *Options) { o.Teacher.Decay = nan },
		"student.noise":           func(o *Options) { o.Student.Noise = 0 },
		"student.hidden":          func(o *Options) { o.Student.Hidden = 0 },
		"student.layers":          func(o *Options) { o.Student.Layers = 17 },
		"student.generator_steps": func(o *Options) { o.Student.GeneratorSteps = 0 },
		"student.generator_rate":  func(o *Options) { o.Student.GeneratorRate = nan },
		"student.trust":           func(o *Options) { o.Student.Trust = 0 },
		"student.memory":          func(o *Options) { o.Student.Memory = -1 },
		"student.step":            func(o *Options) { o.Student.Step = -1 },
		"teacher.features":        func(o *Options) { o.Teacher.Features = "raw" },
		"student.average":         func(o *Options) { o.Student.Average = 1 },
		"student.spread":          func(o *Options) { o.Student.Spread = -0.1 },
	} {
		o := DefaultOptions()
		spoil(&o)
		err := o.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "pategan."+field+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", field, err)
		}
		if _, err := New(o, testEncoder(t), 2, 1); err == nil {
			t.Errorf("%s: New took it", field)
		}
	}
}

func TestLabelsFor(t *testing.T) {
	for _, c := range []struct {
		epsilon  float64
		teachers int
		want     int
	}{{1, 1000, 1000}, {0.1, 1000, 256}, {10, 1000, 2048}, {1, 1200, 1440}} {
		if got := LabelsFor(c.epsilon, c.teachers); got != c.want {
			t.Errorf("LabelsFor(%v, %d) is %d, want %d", c.epsilon, c.teachers, got, c.want)
		}
	}
}
