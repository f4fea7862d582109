package weighted_test

import (
	"fmt"
	"log"

	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The synthetic rows have a column weight. The example computes a mean and a regression, and shows how far its
// coefficients can be trusted.
func Example() {
	schema, err := partition.LoadSchema("testdata/schema.yaml")
	if err != nil {
		log.Fatal(err)
	}
	rows, err := tabular.ReadCSV(schema, "testdata/synthetic.csv", tabular.Options{Weights: true})
	if err != nil {
		log.Fatal(err)
	}
	weight := rows.Weights()
	var age []float64
	var x [][]float64
	var ill []bool
	for i := range rows.Len() {
		cells := rows.Cells(i)
		age = append(age, cells[0])
		x = append(x, []float64{(cells[0] - 50) / 10, cells[1]}) // decades from 50, smoker
		ill = append(ill, cells[2] == 1)
	}
	x = weighted.WithIntercept(x)

	fmt.Printf("%d rows are worth %.1f of equal weight\n", rows.Len(), weighted.EffectiveSize(weight))
	mean, err := weighted.Mean(age, weight)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mean age %.1f, standard error %.1f\n", mean.Value, mean.StandardError)

	fit, err := weighted.Logistic(x, ill, weight)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("log odds by decade %.2f, standard error %.2f\n", fit.Coefficients[1], fit.StandardErrors[1])

	// As wide as after the effective number of rows.
	counts, err := weighted.Scale(weight, weighted.EffectiveSize)
	if err != nil {
		log.Fatal(err)
	}
	prior := weighted.NewNormal([]float64{0, 0, 0}, []float64{3, 1, 2})
	posterior, err := prior.UpdateLogistic(x, ill, counts)
	if err != nil {
		log.Fatal(err)
	}
	draws, err := posterior.Sample(20_000, weighted.SampleOptions{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	low, err := draws.Quantile(1, 0.05)
	if err != nil {
		log.Fatal(err)
	}
	high, err := draws.Quantile(1, 0.95)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("posterior by decade: mean %.1f, nine tenths from %.1f to %.1f\n", draws.Mean()[1], low, high)
	// Output:
	// 24 rows are worth 19.6 of equal weight
	// mean age 60.2, standard error 2.6
	// log odds by decade 1.95, standard error 0.90
	// posterior by decade: mean 1.0, nine tenths from 0.2 to 1.9
}
