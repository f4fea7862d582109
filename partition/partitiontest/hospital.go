package partitiontest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/text/encoding/charmap"
)

// HospitalColumns is how many columns [Hospital] has.
const HospitalColumns = 43

// hospitalRow draws the cells of one row; admitted says who was admitted when, in order.
type hospitalRow struct {
	draw  *rand.Rand
	cells []string
}

// Hospital is a made-up table of hospital stays in a typical export format: semicolons, Latin-1, decimal commas,
// dates with dots, codes, identifiers, free text, empty cells. It has no real data. The same number of rows gives the
// same bytes.
func Hospital(rows int) []byte {
	var b strings.Builder
	b.WriteString(hospitalHeader)
	r := hospitalRow{draw: rand.New(rand.NewPCG(7, 0x405))}
	for i := range rows {
		r.cells = r.cells[:0]
		r.stay(i)
		r.vitals()
		r.laboratory()
		r.codes()
		b.WriteString(strings.Join(r.cells, ";") + "\r\n")
	}
	raw, err := charmap.Windows1252.NewEncoder().String(b.String())
	if err != nil {
		panic(err) // a letter above that is not in Latin-1
	}
	return []byte(raw)
}

const hospitalHeader = "patient_id;fallnummer;klinik;aufnahmedatum;entlassungsdatum;notaufnahme_zeitpunkt;alter;" +
	"geschlecht;verweildauer_tage;aufnahmeart;station;größe_cm;gewicht_kg;bmi;rr_sys;rr_dia;puls;temperatur_c;" +
	"atemfrequenz;spo2;kreatinin_mg_dl;hämoglobin_g_dl;glukose_mg_dl;hba1c_prozent;cholesterin_mg_dl;natrium;kalium;" +
	"harnstoff_mg_dl;crp_mg_l;leukozyten_g_l;thrombozyten_g_l;got;gpt;bilirubin;hauptdiagnose;nebendiagnose;" +
	"medikament;raucher;pflegegrad;frailty_score;befund;hausarzt;verstorben\r\n"

// HospitalDictionary is a data dictionary for [Hospital], with facts that its column names do not show.
const HospitalDictionary = `name,type,lower,upper,categories,description,unit
aufnahmedatum,date,2018-01-01,2024-12-31,,day of admission,
entlassungsdatum,date,2018-01-01,2025-12-31,,day of discharge,
notaufnahme_zeitpunkt,datetime,2018-01-01,2024-12-31T23:59,,arrival at the emergency room,
klinik,categorical,,,Nord|Süd|Ost|West,clinic,
aufnahmeart,categorical,,,Notfall|Einweisung|Verlegung|Geburt,reason of admission,
station,categorical,,,A1|A2|B1|B2|C1|ITS,ward,
bilirubin,continuous,0,100,,total bilirubin,mg/dL
pflegegrad,integer,0,5,,level of care (SGB XI),
frailty_score,continuous,0,1,,share of deficits,
`

func (r *hospitalRow) add(format string, args ...any) {
	r.cells = append(r.cells, fmt.Sprintf(format, args...))
}

// decimal adds a number with decimals after a comma.
func (r *hospitalRow) decimal(v float64, decimals int) {
	r.cells = append(r.cells, strings.Replace(fmt.Sprintf("%.*f", decimals, v), ".", ",", 1))
}

// around is a random number within three deviations of a mean.
func (r *hospitalRow) around(mean, deviation float64) float64 {
	return mean + deviation*min(3, max(-3, r.draw.NormFloat64()))
}

// seldom adds an empty cell instead of a value in one row of twenty.
func (r *hospitalRow) seldom(value func()) {
	if r.draw.IntN(20) == 0 {
		r.add("")
		return
	}
	value()
}

func (r *hospitalRow) pick(words ...string) { r.add("%s", words[r.draw.IntN(len(words))]) }

func (r *hospitalRow) stay(i int) {
	day, month, year := 1+r.draw.IntN(28), 1+r.draw.IntN(12), 2018+r.draw.IntN(6)
	r.add("P-%06d", 100000+i*7%(i/2+100)) // some patients return
	r.add("%d", 7000000+i)
	r.pick("Nord", "Süd", "Ost", "West")
	r.add("%02d.%02d.%d", day, month, year)
	r.seldom(func() { r.add("%02d.%02d.%d", day, month, year+1) })
	r.add("%02d.%02d.%d %02d:%02d", day, month, year, r.draw.IntN(24), r.draw.IntN(60))
	r.add("%d", int(r.around(60, 13)))
	r.pick("w", "m", "w", "m", "w", "m", "w", "m", "d")
	r.add("%d", 1+int(r.draw.ExpFloat64()*5))
	if r.draw.IntN(500) == 0 {
		r.add("Geburt")
	} else {
		r.pick("Notfall", "Einweisung", "Verlegung")
	}
	r.pick("A1", "A2", "B1", "B2", "C1", "ITS")
}

func (r *hospitalRow) vitals() {
	height, weight := r.around(172, 9), r.around(78, 14)
	r.add("%d", int(height))
	r.decimal(weight, 1)
	r.decimal(weight/height/height*1e4, 1)
	r.add("%d", int(r.around(130, 18)))
	r.add("%d", int(r.around(78, 11)))
	r.add("%d", int(r.around(76, 13)))
	r.decimal(r.around(36.9, 0.6), 1)
	r.seldom(func() { r.add("%d", int(r.around(16, 3))) })
	r.add("%d", min(100, int(r.around(96, 2))))
}

func (r *hospitalRow) laboratory() {
	for _, value := range []struct {
		mean, deviation float64
		decimals        int
	}{{1, 0.25, 2}, {13.5, 1.6, 1}, {110, 25, 0}, {5.9, 0.8, 1}, {195, 38, 0}, {139, 3, 0}, {4.2, 0.4, 1}, {35, 9, 0},
		{12, 3.9, 1}, {8, 2, 1}, {240, 60, 0}, {31, 9, 0}, {29, 9, 0}, {0.7, 0.2, 2}} {
		r.seldom(func() { r.decimal(r.around(value.mean, value.deviation), value.decimals) })
	}
}

func (r *hospitalRow) codes() {
	r.pick("I20.0", "I21.4", "I50.14", "J18.9", "J44.1", "K35.8", "N39.0", "E11.9", "C34.1", "S72.0")
	r.seldom(func() { r.pick("I10.00", "E78.0", "E11.9", "N18.3", "F32.1") })
	r.pick("C07AB07", "C09AA05", "A10BA02", "N02BE01", "J01CR02")
	r.pick("ja", "nein", "nein")
	r.add("%d", r.draw.IntN(6))
	r.decimal(r.draw.Float64(), 3)
	r.add("\"Patient in gutem Zustand; Müdigkeit, Übelkeit seit %d Tagen, Aktenzeichen %d\"", 1+r.draw.IntN(9),
		r.draw.Uint32())
	r.add("Dr. %s %s-%s", string(rune('A'+r.draw.IntN(26))), randomName(r.draw), randomName(r.draw))
	r.add("%d", r.draw.IntN(10)/9)
}

// randomName is a made-up word.
func randomName(draw *rand.Rand) string {
	name := ""
	for range 3 {
		name += []string{"ba", "ler", "mü", "sch", "en", "tor", "wei", "gra", "hof"}[draw.IntN(9)]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
