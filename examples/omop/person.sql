-- One row a person of an OMOP CDM 5.4 database, for schema.yaml. Change the lists of concepts here and the columns there
-- together. The concepts are standard ones of Athena (https://athena.ohdsi.org): conditions of SNOMED, measurements of
-- LOINC, units of UCUM, genders of OMOP's vocabulary Gender.
--
-- A materialized view stays as it is until somebody refreshes it, as a node needs its rows to. Nothing after the day in
-- the first line is in it.
create materialized view conclave_person as
with until as (select date '2025-12-31' as day),
-- Conditions: a concept or one below it was recorded. One line a condition.
conditions as (
    select c.person_id,
        bool_or(a.ancestor_concept_id = 201826) as type_2_diabetes,
        bool_or(a.ancestor_concept_id = 320128) as hypertension,   -- essential hypertension
        bool_or(a.ancestor_concept_id = 316139) as heart_failure,
        bool_or(a.ancestor_concept_id = 255573) as copd            -- chronic obstructive pulmonary disease
    from condition_occurrence as c
    join concept_ancestor as a on a.descendant_concept_id = c.condition_concept_id
    cross join until
    where a.ancestor_concept_id in (201826, 320128, 316139, 255573) and c.condition_start_date <= until.day
    group by c.person_id
),
-- Measurements: the last number in the unit of the schema. One pair (concept, unit) a measurement.
last as (
    select distinct on (m.person_id, m.measurement_concept_id)
        m.person_id, m.measurement_concept_id, m.value_as_number
    from measurement as m
    cross join until
    where (m.measurement_concept_id, m.unit_concept_id) in (
            (3016723, 8840),  -- creatinine in serum or plasma, mg/dL
            (3004410, 8554),  -- hemoglobin A1c, %
            (3004249, 8876),  -- systolic blood pressure, mm Hg
            (3038553, 9531))  -- body mass index, kg/m2
        and m.value_as_number is not null and m.measurement_date <= until.day
    order by m.person_id, m.measurement_concept_id, m.measurement_date desc, m.measurement_id desc
),
measurements as (
    select person_id,
        max(value_as_number) filter (where measurement_concept_id = 3016723) as creatinine,
        max(value_as_number) filter (where measurement_concept_id = 3004410) as hba1c,
        max(value_as_number) filter (where measurement_concept_id = 3004249) as systolic,
        max(value_as_number) filter (where measurement_concept_id = 3038553) as bmi
    from last
    group by person_id
)
select
    case p.gender_concept_id when 8532 then 'female' when 8507 then 'male' else 'other' end as sex,
    extract(year from until.day)::int - p.year_of_birth as age,
    coalesce(c.type_2_diabetes, false) as type_2_diabetes,
    coalesce(c.hypertension, false) as hypertension,
    coalesce(c.heart_failure, false) as heart_failure,
    coalesce(c.copd, false) as copd,
    m.creatinine, m.hba1c, m.systolic, m.bmi
from person as p
cross join until
left join conditions as c using (person_id)
left join measurements as m using (person_id);
