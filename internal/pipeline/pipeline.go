package pipeline

// Pipeline is one way to train a generator from releases. A run.yaml names it, and has a
// section of its name. Package pipelines lists all of them.
type Pipeline struct {
	Name string
	// Options returns the defaults of its section.
	Options func() Options
	// Asks names the kinds of questions that its training may ask.
	Asks []string
	// WarmShare is the share of a run's epsilon that a warm start costs on tables where the
	// run does not say; 0 for none.
	WarmShare float64
	// TablesOnly marks a pipeline that does not make images.
	TablesOnly bool
	// NoDiscriminator says why its student has no discriminators for stages after the
	// training; empty where it keeps some. The options then are a [Keeper].
	NoDiscriminator string
	Words           Words
}

// Words describe the releases of a pipeline's training in reports.
type Words struct {
	// Answers is what nodes send: "votes".
	Answers string
	// Baseline is what takes their place in a baseline run: "coin flips".
	Baseline string
}

// Options are a section of a run.yaml: a pointer to a struct with yaml tags.
type Options interface {
	// Validate reports every option that cannot work.
	Validate() error
}

// Defaults makes sections of options that begin as defaults returns them.
func Defaults[T Options](defaults func() T) func() Options {
	return func() Options {
		o := defaults()
		return any(&o).(Options)
	}
}

// Keeper are options that say how many of the student's discriminators are kept for the
// stages after the training.
type Keeper interface{ Kept() int }

// Stage is something that may follow the training, with a section of its own in a run.yaml.
type Stage struct {
	// Name is that of the section.
	Name string
	// Options returns the defaults of its section.
	Options func() Options
	// Asks lists what it may ask of nodes; nothing where it costs nothing.
	Asks []StageQuestion
}

// StageQuestion is one kind of question of a stage.
type StageQuestion struct {
	// Stage names the question in a run's plan, Kind is its kind.
	Stage, Kind string
	// Says describes in a report a number of releases, the longest of so many entries.
	Says func(releases int, entries int64) string
}

// WarmStart is what a run may begin with in place of the class counts. It has a section of
// its own in a run.yaml.
type WarmStart struct {
	// Name is that of the section.
	Name string
	// Pipeline is the one whose runs are such a start and nothing else.
	Pipeline string
	// Options returns the defaults of its section.
	Options func() Options
}
