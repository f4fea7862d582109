package evaluate

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
)

// Evaluation holds the measurements of one synthetic table beside real rows. They were computed from real rows
// without noise: NOT PRIVATE. Parts that could not be measured are absent, and Notes say why.
type Evaluation struct {
	// Privacy is NotPrivate, so that every copy of these figures has the mark.
	Privacy string `json:"privacy"`
	Rows    Rows   `json:"rows"`
	// Weights are those of the synthetic rows, absent if they have none.
	Weights *Weights `json:"weights,omitempty"`

	Utility             []ModelUtility `json:"utility,omitempty"`
	RankingAgreement    *float64       `json:"synthetic_ranking_agreement,omitempty"`
	ImportanceAgreement *float64       `json:"importance_ranking_agreement,omitempty"`

	Columns    []ColumnQuality `json:"columns,omitempty"`
	Pairs      []PairTrend     `json:"pairs,omitempty"`
	Marginals  []Marginal      `json:"marginals,omitempty"`
	Propensity *Propensity     `json:"propensity,omitempty"`
	Regression []Regression    `json:"regression,omitempty"`
	Images     *ImageQuality   `json:"images,omitempty"`
	Closeness  *Closeness      `json:"closeness,omitempty"`
	// Baselines and Unseen come from package baseline.
	Baselines *Baselines `json:"baselines,omitempty"`
	Unseen    *Unseen    `json:"unseen_combinations,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// NotPrivate marks figures computed from real rows without noise.
const NotPrivate = "NOT PRIVATE: computed from real rows without noise"

// Rows counts the rows that were compared.
type Rows struct {
	Synthetic int `json:"synthetic"`
	Test      int `json:"test"`
	Train     int `json:"train,omitempty"`
}

// Weights summarizes the importance weights of synthetic rows. It depends only on them, and is as private as
// they are.
type Weights struct {
	// EffectiveSampleSize is the number of rows of equal weight that are worth as much (Kish 1965): the squared
	// sum of the weights over the sum of their squares.
	EffectiveSampleSize float64 `json:"effective_sample_size"`
	Largest             float64 `json:"largest"` // in units of the mean
	Zero                int     `json:"zero"`    // rows of weight 0
}

// SummarizeWeights returns nil if weights are nil, or if measure.CheckWeights refuses them.
func SummarizeWeights(weight []float64) *Weights {
	if len(weight) == 0 || measure.CheckWeights(len(weight), weight) != nil {
		return nil
	}
	w := &Weights{EffectiveSampleSize: weighted.EffectiveSize(weight)}
	largest, total := slices.Max(weight), 0.0
	for _, v := range weight {
		total += v / largest
		if v == 0 {
			w.Zero++
		}
	}
	w.Largest = float64(len(weight)) / total
	return w
}

// ModelUtility is one classifier in the settings of the PATE-GAN paper (Jordon,
// Yoon, van der Schaar 2019): A trained on real and tested on real rows, B
// trained on synthetic and tested on real ones, C trained and tested on
// synthetic ones. CoinFlips is B for rows of the same run with its votes
// replaced by chance.
type ModelUtility struct {
	Model     string   `json:"model"`
	A         *Ranking `json:"train_real_test_real,omitempty"`
	B         *Ranking `json:"train_synthetic_test_real,omitempty"`
	C         *Ranking `json:"train_synthetic_test_synthetic,omitempty"`
	CoinFlips *Ranking `json:"coin_flips,omitempty"`
}

// Ranking measures how well scores rank rows.
type Ranking struct {
	AUROC            float64 `json:"auroc"`
	AveragePrecision float64 `json:"average_precision"`
	// InterpolatedPrecision is the area under the precision-recall curve as R's PRROC computes it. Accuracy is
	// the share of correct rows at a probability of one half.
	InterpolatedPrecision float64 `json:"interpolated_precision"`
	Accuracy              float64 `json:"accuracy"`
}

// ColumnQuality compares a column's distribution in both tables.
type ColumnQuality struct {
	Shape
	// Wasserstein is the distance of numbers in units of the column's public range.
	Wasserstein *float64 `json:"wasserstein,omitempty"`
}

// PairTrend compares how two columns are related, as SDMetrics defines it: 1 is the same. For two numbers, Real
// and Synthetic are the correlations.
type PairTrend struct {
	Columns   [2]string `json:"columns"`
	Measure   string    `json:"measure"` // CorrelationSimilarity or ContingencySimilarity
	Score     *float64  `json:"score"`
	Real      *float64  `json:"real,omitempty"`
	Synthetic *float64  `json:"synthetic,omitempty"`
	// Association is how strongly two columns that are not both numbers are related; absent if one of them has
	// only one value.
	Association *Association `json:"association,omitempty"`
}

// Association is the strength of a pair of columns, from 0 to 1, in both tables.
type Association struct {
	Measure   string  `json:"measure"` // CramersV, or CorrelationRatio for a number and a category
	Real      float64 `json:"real"`
	Synthetic float64 `json:"synthetic"`
}

// Baselines are the scores of rows that are not synthetic, with which those of synthetic rows are compared.
type Baselines struct {
	// Independent are real rows whose columns were shuffled independently: they keep single columns only.
	Independent Scores `json:"independent_columns"`
	// Real are the real rows of the training, the best possible rows; absent without them.
	Real *Scores `json:"real_rows,omitempty"`
	// Halves is one half of the test rows beside the other, where there are no rows of the training: what chance alone
	// costs, and more than it costs all test rows. It has the scores of columns and pairs.
	Halves *Scores `json:"halves,omitempty"`
}

// Scores are the scores that also exist for synthetic rows; means if there are several models.
type Scores struct {
	Columns     *float64  `json:"columns,omitempty"`
	WorstColumn *float64  `json:"worst_column,omitempty"`
	Pairs       *float64  `json:"pairs,omitempty"`
	WorstPair   *float64  `json:"worst_pair,omitempty"`
	Marginals   []float64 `json:"marginals,omitempty"` // mean distances of one, two and three columns
	PMSERatio   *float64  `json:"pmse_ratio,omitempty"`
	AUROC       *float64  `json:"auroc,omitempty"`
}

// Unseen are combinations of the values of two columns that synthetic rows have and no given real row has.
type Unseen struct {
	// Rows is the share of synthetic rows with at least one of them. Independent is that share for rows with
	// shuffled columns.
	Rows        float64 `json:"rows"`
	Independent float64 `json:"independent_columns"`
	// Kinds is the number of different combinations. Combinations are the most frequent of them.
	Kinds        int           `json:"kinds"`
	Combinations []Combination `json:"combinations,omitempty"`
	// Against is the number of real rows.
	Against int `json:"against"`
}

// Combination is a combination of two values.
type Combination struct {
	Columns [2]string `json:"columns"`
	Values  [2]string `json:"values"`
	Rows    float64   `json:"rows"` // the share of synthetic rows
}

// Marginal is the total variation distance of the joint distributions of Ways
// columns, numbers in equal bins of their public range: 0 is the same.
type Marginal struct {
	Ways   int      `json:"ways"`
	Sets   int      `json:"sets"` // of columns, all or a sample of them
	Mean   float64  `json:"mean"`
	Worst  float64  `json:"worst"`
	Widest []string `json:"widest"` // the columns of the worst
}

// Propensity is the propensity score's mean squared error (Woo et al. 2009; Snoke et al. 2018) of a logistic
// regression that tells synthetic from real rows, and its ratio to the expectation of Snoke et al. They assume
// that the synthesis was fitted to the real rows. Rows of the same distribution that are independent of the
// real ones have about RatioOfEqual, 1/(1-c) with c the share of synthetic rows: that is ideal.
type Propensity struct {
	PMSE         float64 `json:"pmse"`
	Ratio        float64 `json:"ratio"`
	RatioOfEqual float64 `json:"ratio_of_equal_distributions"`
}

// Regression compares a linear regression fitted to synthetic rows with one fitted
// to real ones, both tested on real rows.
type Regression struct {
	Column        string   `json:"column"`
	RMSEReal      *float64 `json:"rmse_train_real,omitempty"`
	RMSESynthetic float64  `json:"rmse_train_synthetic"`
	// BetaMSE is the mean squared difference of the coefficients, for features and a target in units of their
	// public range.
	BetaMSE *float64 `json:"beta_mse,omitempty"`
}

// ImageQuality compares images. Features come from a classifier trained on real images: neither score is that
// of the Inception network.
type ImageQuality struct {
	AccuracyReal      float64 `json:"accuracy_train_real"`
	AccuracySynthetic float64 `json:"accuracy_train_synthetic"`
	ScoreReal         float64 `json:"classifier_score_real"`
	ScoreSynthetic    float64 `json:"classifier_score_synthetic"`
	FrechetDistance   float64 `json:"classifier_frechet_distance"`
	// FrechetByClass is the mean over the classes of the distance between their images, so it depends on labels too.
	// Nil where a class has less than two images of a side.
	FrechetByClass *float64 `json:"classifier_frechet_distance_by_class,omitempty"`
	// The figures of images of the same run with its votes replaced by chance.
	AccuracyCoinFlips *float64 `json:"accuracy_train_coin_flips,omitempty"`
	ScoreCoinFlips    *float64 `json:"classifier_score_coin_flips,omitempty"`
	FrechetCoinFlips  *float64 `json:"classifier_frechet_distance_coin_flips,omitempty"`
	ByClassCoinFlips  *float64 `json:"classifier_frechet_distance_by_class_coin_flips,omitempty"`
}

// Closeness says how near synthetic rows come to the real rows of the training, compared with rows of a holdout: a
// share well above the holdout's means that rows were memorized.
type Closeness struct {
	// Copies are the shares of synthetic rows that equal a row of the training, and
	// of the test rows.
	CopiesTrain float64 `json:"copies_of_train"`
	CopiesTest  float64 `json:"copies_of_test"`
	// TestInTrain is the share of all test rows that equal a training row. If it is large, the other figures
	// cannot show memorization.
	TestInTrain float64 `json:"test_rows_in_train"`
	// DistanceTrain and DistanceTest are the median distances to the closest row.
	DistanceTrain float64 `json:"median_distance_to_train"`
	DistanceTest  float64 `json:"median_distance_to_test"`
	// CloserToTrain is the share of synthetic rows that are closer to a training row
	// than to any of equally many test rows; 0.5 is ideal.
	CloserToTrain float64 `json:"closer_to_train"`
	// MembershipAUROC is how well the distance to the closest synthetic row separates training from test rows; 0.5
	// is guessing.
	MembershipAUROC float64 `json:"membership_auroc"`
}
