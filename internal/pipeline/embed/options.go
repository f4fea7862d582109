package embed

// Options are the `embed:` part of a run, those of its features and of fitting also of a
// warm start. The zero value of a field is not its default; start from [DefaultOptions].
type Options struct {
	// Noise is the noise multiplier: the noise of each number of the sum over the L2 norm
	// of what one unit adds. Default: 0, the least that the budget allows. Of a warm start
	// its share of the budget says how much.
	Noise float64 `yaml:"noise"`
	// Quorum is the share of the teachers without which a round does not count.
	// Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 60.
	Deadline float64 `yaml:"deadline"`

	Features Features `yaml:"features"`
	Fit      Fit      `yaml:"fit"`
	Student  Student  `yaml:"student"`
}

// Features say what is summed. Weights are L2 norms of what a record adds to a group; only
// their ratios matter: more weight is less noise for this group and more for the others.
type Features struct {
	// Count is the weight of the number 1, which counts the records of each class.
	// Default: 0, chosen.
	Count float64 `yaml:"count"`
	// Columns is the weight of single columns. Default: -1, chosen; 0 leaves them out.
	Columns float64 `yaml:"columns"`
	// Pairs is the weight of pairs of columns. Default: -1, chosen; 0 leaves them out.
	Pairs float64 `yaml:"pairs"`
	// Bins is how many knots a number has of columns, PairBins of pairs. Defaults: 0, chosen.
	Bins     int `yaml:"bins"`
	PairBins int `yaml:"pair_bins"`
	// MostPairs is how many pairs are summed of tables that have more, chosen by a public
	// seed. Default: 0, chosen.
	MostPairs int `yaml:"most_pairs"`
	// Fourier is the weight of random waves of whole records, which tell any two
	// distributions apart. Default: -1, chosen; 0 leaves them out.
	Fourier float64 `yaml:"fourier"`
	// Waves is their number. Default: 0, chosen.
	Waves int `yaml:"waves"`
	// Scales are their length scales, of which each has as many waves: short ones see more
	// detail, long ones more of the whole. Default: none, chosen.
	Scales []float64 `yaml:"scales"`
}

// Fit says how the generator is fitted to the release. All of it is free of cost.
type Fit struct {
	// Steps is the number of steps, of Batch generated records each. Defaults: 0, chosen.
	Steps int `yaml:"steps"`
	Batch int `yaml:"batch"`
	// StepSize is Adam's, StepEnd that of the last step. Defaults: 0, chosen.
	StepSize float64 `yaml:"step_size"`
	StepEnd  float64 `yaml:"step_end"`
	// Memory is how much of the generated records before counts in a step: without any a
	// step would take the spread of a small batch for that of the generator. Default: -1,
	// chosen.
	Memory float64 `yaml:"memory"`
	// Average is the decay of the generator's moving average per step, of `pipeline:
	// embed`. Default: -1, chosen.
	Average float64 `yaml:"average"`
}

// Student is the generator of `pipeline: embed`; a warm start is that of another pipeline's.
type Student struct {
	// Generator: dense or convolution (of images). Default: chosen.
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random turns, shears, scales and shifts that end
	// a generator of images, which it then need not learn. Default: -1, chosen.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs. Default: 0, chosen.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: 0, chosen; 0, chosen.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		Quorum: 0.9, Deadline: 60,
		Features: Features{Columns: -1, Pairs: -1, Fourier: -1},
		Fit:      Fit{Memory: -1, Average: -1},
		Student:  Student{Warp: -1},
	}
}
