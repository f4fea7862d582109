package pategan

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestDefaultOptionsAreValid(t *testing.T) {
	testkit.Must(t, DefaultOptions().Validate())
}

func TestValidateNamesTheField(t *testing.T) {
	e := studenttest.Table(t)
	studenttest.RefusesOptions(t, "pategan", DefaultOptions, map[string]string{
		"mechanism": "max", "votes": "coin", "release": "all", "labels": "-1", "queries": "1", "noise": "-1",
		"class_share": "1", "threshold": "1.1", "threshold_noise": "0", "quorum": "0", "deadline": ".nan",
		"teacher.model": "tree", "teacher.hidden": "0", "teacher.steps": "0", "teacher.batch": "0",
		"teacher.training": "0",
		"teacher.rate":     "0", "teacher.decay": ".nan 10", "teacher.features": "raw",
		"student.noise": "0", "student.hidden": "0", "student.layers": "17", "student.generator_steps": "0",
		"student.generator_rate": ".nan", "student.trust": "0", "student.memory": "-1", "student.step": "-1",
		"student.average": "1", "student.spread": "-0.1", "student.keep": "-1 1001",
	}, func(o Options) error {
		_, err := New(o, e, 2, 1)
		return err
	})
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
