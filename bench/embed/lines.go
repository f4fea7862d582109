package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/table"
)

// garments are pictures of one size and the right way up, which is public: a generator that
// turns and stretches them as much as digits makes what nobody wears.
const garments = "{student: {warp: 0.3}}"

// lines are the table. The papers' figures are accuracies of convolutional networks.
var lines = append([]table.Line{
	{Name: "flchain-0.1", Data: "flchain", Epsilon: 0.1, Rows: 6000},
	{Name: "flchain-0.3", Data: "flchain", Epsilon: 0.3, Rows: 6000},
	{Name: "flchain-1", Data: "flchain", Epsilon: 1, Rows: 6000},
	{Name: "flchain-10", Data: "flchain", Epsilon: 10, Rows: 6000},
	{Name: "adult-0.1", Data: "adult", Epsilon: 0.1, Rows: 10_000},
	{Name: "adult-1", Data: "adult", Epsilon: 1, Rows: 10_000},
	{Name: "adult-10", Data: "adult", Epsilon: 10, Rows: 10_000},
	{Name: "credit-1", Data: "credit", Epsilon: 1, Rows: 20_000},
	{Name: "titanic-1", Data: "titanic", Epsilon: 1, Rows: 2000},
	{Name: "census1940-1", Data: "census1940", Epsilon: 1, Rows: 10_000},
	{Name: "boston-1", Data: "boston_housing", Epsilon: 1, Rows: 1000},
	{Name: "mnist-1", Data: "mnist", Epsilon: 1, Rows: 60_000, Images: true, Paper: 0.805},
	{Name: "mnist-10", Data: "mnist", Epsilon: 10, Rows: 60_000, Images: true, Paper: 0.82},
	{Name: "fashion-1", Data: "fashion_mnist", Epsilon: 1, Rows: 60_000, Images: true, Options: garments},
	{Name: "fashion-10", Data: "fashion_mnist", Epsilon: 10, Rows: 60_000, Images: true, Paper: 0.74, Options: garments},
}, warm()...)

// warm are runs at epsilon 1 with and without a start bought with a share of the budget.
func warm() (all []table.Line) {
	for _, p := range []struct {
		pipeline string
		teachers int
	}{{"pategan", 1000}, {"dpgan", 1}} {
		for _, data := range []string{"flchain", "adult"} {
			for _, share := range []float64{0, 0.3, 0.7} {
				l := table.Line{
					Name: fmt.Sprintf("warm-%s-%s-%v", p.pipeline, data, share), Data: data, Epsilon: 1, Rows: 6000, Teachers: p.teachers,
					Pipeline: p.pipeline, Run: fmt.Sprintf("warm_start: {embed: %v}", share), Alone: true,
				}
				if data == "adult" {
					l.Rows = 10_000
				}
				all = append(all, l)
			}
		}
	}
	return all
}

func init() {
	for i := range lines {
		if lines[i].Teachers == 0 {
			lines[i].Teachers = 1
		}
	}
}
