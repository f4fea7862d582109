package proposal

// unit is one way to measure a variable, with limits that hold for a patient in any state.
type unit struct {
	Name         string
	Suffixes     []string // as they follow an alias, in small letters and digits
	Lower, Upper string
}

// variable is a common variable. A column matches if its name, without capitals, separators and accents, is an
// alias, or an alias followed by a suffix of a unit. If there are several units, only a suffix selects one.
type variable struct {
	Name    string
	Aliases []string // small letters and digits: ä is ae, µ is u, % is pct
	Units   []unit
	// Categories are sets; the first that has all cells of a column is taken. Units is empty then.
	Categories [][]string
	Date       bool // limits are days
	Log        bool // skewed enough for scale: log
	// Source is a reference for the ranges and definitions behind the limits. The limits are wider than those
	// ranges: this project rounded them outward, far enough for extreme cases.
	Source string
}

const (
	tietz = "reference intervals in Rifai N, Horvath AR, Wittwer CT (eds). Tietz Textbook of Clinical Chemistry and " +
		"Molecular Diagnostics, 6th ed. Elsevier, 2018"
	news2   = "Royal College of Physicians. National Early Warning Score (NEWS) 2. London, 2017"
	bodies  = "NHANES 2017-2018, Body Measures (BMX_J)"
	tallest = "; tallest documented person 272 cm (R. Wadlow, Guinness World Records)"
	heavy   = "; heaviest documented person 635 kg (J. B. Minnoch, Guinness World Records)"
	oldest  = "oldest documented age 122 years: Robine JM, Allard M. The oldest human. Science 1998;279:1834-5"
	lipids  = "NHANES 2017-2018, Cholesterol (TCHOL_J, HDL_J, TRIGLY_J)"
)

var (
	centimetres = []string{"cm", "centimeter", "centimetre"}
	inches      = []string{"in", "inch", "inches"}
	perMinute   = []string{"bpm", "min", "permin", "1min"}
	percent     = []string{"pct", "percent", "prozent"}
	billions    = []string{"gl", "109l", "10e9l", "x109l", "nl", "kul", "103ul", "10e3ul", "x103ul", "thousul", "tsdul"}
	perUL       = []string{"ul", "perul", "mm3", "permm3"}
	unitsPerL   = []string{"ul", "iul", "unitl", "unitsl"}
)

// variables are at most 40; docs/variables.md lists them.
var variables = []variable{
	{Name: "age", Aliases: []string{"age", "alter", "patientage", "ageatadmission", "alterbeiaufnahme", "lebensalter"},
		Units:  []unit{{"years", []string{"years", "year", "yrs", "y", "jahre"}, "0", "125"}},
		Source: oldest},
	{Name: "year of birth", Aliases: []string{"yearofbirth", "birthyear", "yob", "geburtsjahr", "gebjahr"},
		Units: []unit{{"year", nil, "1880", "2030"}}, Source: "of persons alive after 2005, " + oldest},
	{Name: "date of birth", Aliases: []string{"dateofbirth", "birthdate", "dob", "geburtsdatum", "gebdatum", "gebdat"},
		Date: true, Units: []unit{{"day", nil, "1880-01-01", "2030-12-31"}},
		Source: "of persons alive after 2005, " + oldest},
	{Name: "sex", Aliases: []string{"sex", "gender", "geschlecht", "patientsex", "patientgender"},
		Categories: [][]string{{"F", "M"}, {"f", "m"}, {"female", "male"}, {"Female", "Male"}, {"FEMALE", "MALE"},
			{"w", "m"}, {"W", "M"}, {"weiblich", "männlich"}, {"w", "m", "d"}, {"W", "M", "D"}, {"w", "m", "d", "x"},
			{"W", "M", "D", "X"}, {"weiblich", "männlich", "divers"}, {"weiblich", "männlich", "divers", "unbestimmt"},
			{"F", "M", "O", "U"}, {"female", "male", "other", "unknown"}},
		Source: "HL7 FHIR R4, value set administrative-gender; for divers, German civil status act (PStG), section 22"},
	{Name: "height", Aliases: []string{"height", "bodyheight", "stature", "groesse", "koerpergroesse"},
		Units: []unit{{"cm", centimetres, "20", "280"}, {"m", []string{"m", "meter", "metre"}, "0.2", "2.8"},
			{"in", inches, "8", "111"}},
		Source: bodies + tallest},
	{Name: "weight", Aliases: []string{"weight", "bodyweight", "gewicht", "koerpergewicht"},
		Units: []unit{{"kg", []string{"kg", "kilogram", "kilograms"}, "0", "650"},
			{"lb", []string{"lb", "lbs", "pounds"}, "0", "1440"}},
		Source: bodies + heavy},
	{Name: "body mass index", Aliases: []string{"bmi", "bodymassindex"},
		Units:  []unit{{"kg/m²", []string{"kgm2", "kgm"}, "5", "200"}},
		Source: "WHO Technical Report Series 894, Obesity: preventing and managing the global epidemic, 2000"},
	{Name: "waist circumference", Aliases: []string{"waist", "waistcircumference", "taillenumfang", "bauchumfang"},
		Units:  []unit{{"cm", centimetres, "20", "400"}, {"in", inches, "8", "160"}},
		Source: bodies},
	{Name: "systolic blood pressure",
		Aliases: []string{"systolic", "systolicbp", "systolicbloodpressure", "sbp", "sysbp", "bpsys", "bpsystolic",
			"rrsys", "rrsyst", "systolisch", "blutdrucksystolisch", "systolischerblutdruck"},
		Units: []unit{{"mmHg", []string{"mmhg"}, "0", "400"}}, Source: news2},
	{Name: "diastolic blood pressure",
		Aliases: []string{"diastolic", "diastolicbp", "diastolicbloodpressure", "dbp", "diabp", "bpdia", "bpdiastolic",
			"rrdia", "rrdiast", "diastolisch", "blutdruckdiastolisch", "diastolischerblutdruck"},
		Units: []unit{{"mmHg", []string{"mmhg"}, "0", "300"}}, Source: "NHANES 2017-2018, Blood Pressure (BPX_J)"},
	{Name: "mean arterial pressure", Aliases: []string{"meanarterialpressure", "meanbp", "mbp", "mitteldruck"},
		Units:  []unit{{"mmHg", []string{"mmhg"}, "0", "350"}},
		Source: "lies between systolic and diastolic pressure"},
	{Name: "heart rate", Aliases: []string{"heartrate", "pulse", "pulserate", "hr", "puls", "pulsfrequenz",
		"herzfrequenz"},
		Units: []unit{{"1/min", perMinute, "0", "400"}}, Source: news2},
	{Name: "respiratory rate", Aliases: []string{"respiratoryrate", "resprate", "respirationrate", "atemfrequenz"},
		Units: []unit{{"1/min", perMinute, "0", "150"}}, Source: news2},
	{Name: "body temperature", Aliases: []string{"temperature", "temp", "bodytemperature", "bodytemp", "temperatur",
		"koerpertemperatur"},
		Units: []unit{{"°C", []string{"c", "celsius", "degc", "gradc"}, "10", "50"},
			{"°F", []string{"f", "fahrenheit", "degf"}, "50", "122"}},
		Source: news2 + "; lowest survived 13.7 °C: Gilbert M et al. Lancet 2000;355:375-6"},
	{Name: "oxygen saturation", Aliases: []string{"spo2", "sao2", "o2sat", "oxygensaturation", "sauerstoffsaettigung"},
		Units: []unit{{"%", percent, "0", "100"}}, Source: "a percentage"},
	{Name: "creatinine", Aliases: []string{"creatinine", "serumcreatinine", "crea", "kreatinin", "serumkreatinin",
		"krea"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "50"}, {"µmol/L", []string{"umoll"}, "0", "4500"}},
		Log:   true, Source: tietz},
	{Name: "estimated glomerular filtration rate", Aliases: []string{"egfr", "gfr", "egfrckdepi"},
		Units: []unit{{"mL/min/1.73 m²", []string{"mlmin", "mlmin173m2"}, "0", "300"}},
		Source: "KDIGO 2012 Clinical Practice Guideline for the Evaluation and Management of Chronic Kidney Disease. " +
			"Kidney Int Suppl 2013;3:1-150"},
	{Name: "haemoglobin", Aliases: []string{"haemoglobin", "hemoglobin", "haemoglobine", "hb", "hgb"},
		Units: []unit{{"g/dL", []string{"gdl"}, "0", "30"}, {"g/L", []string{"gl"}, "0", "300"},
			{"mmol/L", []string{"mmoll"}, "0", "19"}},
		Source: tietz},
	{Name: "haematocrit", Aliases: []string{"haematocrit", "hematocrit", "haematokrit", "hct", "hkt"},
		Units:  []unit{{"%", percent, "0", "100"}, {"L/L", []string{"ll", "lperl"}, "0", "1"}},
		Source: "a share of the blood's volume"},
	{Name: "glucose", Aliases: []string{"glucose", "bloodglucose", "plasmaglucose", "fastingglucose", "glukose",
		"blutzucker", "bz"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "3000"}, {"mmol/L", []string{"mmoll"}, "0", "170"}},
		Log:   true, Source: tietz},
	{Name: "HbA1c", Aliases: []string{"hba1c", "a1c", "glycohemoglobin", "glycatedhemoglobin"},
		Units:  []unit{{"%", percent, "0", "30"}, {"mmol/mol", []string{"mmolmol"}, "0", "310"}},
		Source: "NHANES 2017-2018, Glycohemoglobin (GHB_J)"},
	{Name: "total cholesterol", Aliases: []string{"cholesterol", "totalcholesterol", "cholesteroltotal", "chol",
		"tchol", "cholesterin", "gesamtcholesterin"},
		Units:  []unit{{"mg/dL", []string{"mgdl"}, "0", "3000"}, {"mmol/L", []string{"mmoll"}, "0", "78"}},
		Source: lipids},
	{Name: "HDL cholesterol", Aliases: []string{"hdl", "hdlc", "hdlcholesterol", "cholesterolhdl", "hdlcholesterin"},
		Units:  []unit{{"mg/dL", []string{"mgdl"}, "0", "300"}, {"mmol/L", []string{"mmoll"}, "0", "8"}},
		Source: lipids},
	{Name: "LDL cholesterol", Aliases: []string{"ldl", "ldlc", "ldlcholesterol", "cholesterolldl", "ldlcholesterin"},
		Units:  []unit{{"mg/dL", []string{"mgdl"}, "0", "2000"}, {"mmol/L", []string{"mmoll"}, "0", "52"}},
		Source: lipids},
	{Name: "triglycerides", Aliases: []string{"triglycerides", "triglyceride", "trig", "tg", "triglyzeride"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "15000"}, {"mmol/L", []string{"mmoll"}, "0", "170"}},
		Log:   true, Source: lipids},
	{Name: "sodium", Aliases: []string{"sodium", "serumsodium", "natrium"},
		Units: []unit{{"mmol/L", []string{"mmoll", "meql"}, "80", "220"}}, Source: tietz},
	{Name: "potassium", Aliases: []string{"potassium", "serumpotassium", "kalium"},
		Units: []unit{{"mmol/L", []string{"mmoll", "meql"}, "0", "15"}}, Source: tietz},
	{Name: "urea", Aliases: []string{"urea", "serumurea", "harnstoff"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "1100"}, {"mmol/L", []string{"mmoll"}, "0", "184"}},
		Log:   true, Source: tietz},
	{Name: "blood urea nitrogen", Aliases: []string{"bun", "bloodureanitrogen", "ureanitrogen", "harnstoffstickstoff"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "500"}, {"mmol/L", []string{"mmoll"}, "0", "180"}},
		Log:   true, Source: tietz},
	{Name: "bilirubin", Aliases: []string{"bilirubin", "totalbilirubin", "bilirubintotal", "gesamtbilirubin"},
		Units: []unit{{"mg/dL", []string{"mgdl"}, "0", "100"}, {"µmol/L", []string{"umoll"}, "0", "1720"}},
		Log:   true, Source: tietz},
	{Name: "albumin", Aliases: []string{"albumin", "serumalbumin"},
		Units:  []unit{{"g/dL", []string{"gdl"}, "0", "10"}, {"g/L", []string{"gl"}, "0", "100"}},
		Source: tietz},
	{Name: "alanine aminotransferase", Aliases: []string{"alt", "alat", "gpt", "sgpt", "alanineaminotransferase"},
		Units: []unit{{"U/L", unitsPerL, "0", "50000"}}, Log: true, Source: tietz},
	{Name: "aspartate aminotransferase", Aliases: []string{"ast", "asat", "got", "sgot", "aspartateaminotransferase"},
		Units: []unit{{"U/L", unitsPerL, "0", "50000"}}, Log: true, Source: tietz},
	{Name: "platelets", Aliases: []string{"platelets", "plateletcount", "plt", "thrombocytes", "thrombozyten"},
		Units:  []unit{{"10⁹/L", billions, "0", "5000"}, {"1/µL", perUL, "0", "5000000"}},
		Source: "NHANES 2017-2018, Complete Blood Count (CBC_J)"},
	{Name: "white blood cells", Aliases: []string{"wbc", "whitebloodcells", "whitebloodcellcount", "leukocytes",
		"leukozyten"},
		Units: []unit{{"10⁹/L", billions, "0", "1000"}, {"1/µL", perUL, "0", "1000000"}},
		Log:   true, Source: "NHANES 2017-2018, Complete Blood Count (CBC_J)"},
	{Name: "C-reactive protein", Aliases: []string{"crp", "creactiveprotein", "hscrp"},
		Units: []unit{{"mg/L", []string{"mgl"}, "0", "1000"}, {"mg/dL", []string{"mgdl"}, "0", "100"}},
		Log:   true, Source: "NHANES 2017-2018, High-Sensitivity C-Reactive Protein (HSCRP_J)"},
	{Name: "hours of work per week", Aliases: []string{"hoursperweek", "weeklyhours", "workinghours", "wochenstunden"},
		Units: []unit{{"hours", []string{"h", "hours"}, "0", "168"}}, Source: "a week has 168 hours"},
	{Name: "years of education", Aliases: []string{"educationyears", "yearsofeducation", "educationnum", "schooljahre",
		"bildungsjahre", "yearsofschooling"},
		Units:  []unit{{"years", nil, "0", "30"}},
		Source: "UNESCO Institute for Statistics. International Standard Classification of Education, ISCED 2011"},
	{Name: "number of children", Aliases: []string{"children", "numberofchildren", "numchildren", "nchildren", "kinder",
		"kinderzahl", "anzahlkinder"},
		Units: []unit{{"children", nil, "0", "30"}}, Source: "The DHS Program, Standard Recode Manual, variable V201"},
	{Name: "length of stay", Aliases: []string{"lengthofstay", "los", "timeinhospital", "verweildauer", "liegedauer"},
		Units: []unit{{"days", []string{"days", "day", "d", "tage"}, "0", "3650"},
			{"hours", []string{"hours", "h", "stunden"}, "0", "87600"}},
		Log: true, Source: "OECD, Health at a Glance, average length of stay in hospitals; ten years at most"},
}
