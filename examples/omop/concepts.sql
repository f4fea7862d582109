-- Compares the concepts that person.sql names with the vocabulary of the database: it returns a row for each that is
-- missing, has another code, or is no standard concept, and no row where all is well. Change the list with person.sql.
with used(concept_id, vocabulary_id, concept_code, meaning) as (values
    (8507, 'Gender', 'M', 'male'),
    (8532, 'Gender', 'F', 'female'),
    (201826, 'SNOMED', '44054006', 'type 2 diabetes mellitus'),
    (320128, 'SNOMED', '59621000', 'essential hypertension'),
    (316139, 'SNOMED', '84114007', 'heart failure'),
    (255573, 'SNOMED', '13645005', 'chronic obstructive pulmonary disease'),
    (3016723, 'LOINC', '2160-0', 'creatinine in serum or plasma'),
    (3004410, 'LOINC', '4548-4', 'hemoglobin A1c'),
    (3004249, 'LOINC', '8480-6', 'systolic blood pressure'),
    (3038553, 'LOINC', '39156-5', 'body mass index'),
    (8840, 'UCUM', 'mg/dL', 'milligram per deciliter'),
    (8554, 'UCUM', '%', 'percent'),
    (8876, 'UCUM', 'mm[Hg]', 'millimeter of mercury'),
    (9531, 'UCUM', 'kg/m2', 'kilogram per square meter')
)
select used.*, c.concept_name, c.vocabulary_id as found_vocabulary, c.concept_code as found_code, c.standard_concept,
    c.invalid_reason
from used
left join concept as c using (concept_id)
where c.concept_id is null or (c.vocabulary_id, c.concept_code) <> (used.vocabulary_id, used.concept_code)
    or c.standard_concept is distinct from 'S' or c.invalid_reason is not null;
