-- Fills the tables of cdm.sql with 3,000 persons that chance makes: nobody's data. Another number stands in the next
-- line; setseed gives the same rows each time. Older persons have more conditions, and measurements follow from them.
create temporary table persons as select 3000 as number;
select setseed(0.31);

insert into person
select i, case when random() < 0.51 then 8532 else 8507 end, 1930 + floor(75 * sqrt(random()))::int,
    1 + floor(12 * random())::int, 1 + floor(28 * random())::int, 0, 0
from persons, generate_series(1, number) as i;

-- Each standard concept is a descendant of itself; 4193704 is type 2 diabetes without complication.
insert into concept_ancestor
select c, c, 0, 0 from unnest(array[201826, 4193704, 320128, 316139, 255573]) as c;
insert into concept_ancestor values (201826, 4193704, 1, 1);

-- Of the vocabulary, the concepts above and those of person.sql.
insert into concept values
    (8507, 'MALE', 'Gender', 'Gender', 'M', 'S', null),
    (8532, 'FEMALE', 'Gender', 'Gender', 'F', 'S', null),
    (201826, 'Type 2 diabetes mellitus', 'Condition', 'SNOMED', '44054006', 'S', null),
    (4193704, 'Type 2 diabetes mellitus without complication', 'Condition', 'SNOMED', '313436004', 'S', null),
    (320128, 'Essential hypertension', 'Condition', 'SNOMED', '59621000', 'S', null),
    (316139, 'Heart failure', 'Condition', 'SNOMED', '84114007', 'S', null),
    (255573, 'Chronic obstructive pulmonary disease', 'Condition', 'SNOMED', '13645005', 'S', null),
    (3016723, 'Creatinine [Mass/volume] in Serum or Plasma', 'Measurement', 'LOINC', '2160-0', 'S', null),
    (3004410, 'Hemoglobin A1c/Hemoglobin.total in Blood', 'Measurement', 'LOINC', '4548-4', 'S', null),
    (3004249, 'Systolic blood pressure', 'Measurement', 'LOINC', '8480-6', 'S', null),
    (3038553, 'Body mass index (BMI) [Ratio]', 'Measurement', 'LOINC', '39156-5', 'S', null),
    (8840, 'milligram per deciliter', 'Unit', 'UCUM', 'mg/dL', 'S', null),
    (8554, 'percent', 'Unit', 'UCUM', '%', 'S', null),
    (8876, 'millimeter mercury column', 'Unit', 'UCUM', 'mm[Hg]', 'S', null),
    (9531, 'kilogram per square meter', 'Unit', 'UCUM', 'kg/m2', 'S', null);

insert into condition_occurrence
select row_number() over (), p.person_id,
    case when k.concept = 201826 and random() < 0.3 then 4193704 else k.concept end,
    date '2024-01-01' + floor(700 * random())::int, null, 32817
from person as p
cross join (values (201826, 0.004), (320128, 0.009), (316139, 0.002), (255573, 0.003)) as k(concept, a_year)
cross join generate_series(1, 2) as visit
where random() < k.a_year * (2025 - p.year_of_birth) / 2;

-- Three in four measurements are there. One in twenty creatinines has another unit (micromole per liter, 8749), which
-- person.sql leaves out.
insert into measurement
select row_number() over (), m.person_id, m.concept, date '2024-01-01' + floor(700 * random())::int, 32817,
    case when m.unit = 8749 then round(88.4 * m.value) else round(m.value, m.digits) end, m.unit
from (
    select p.person_id, k.concept, k.digits,
        case when k.concept = 3016723 and random() < 0.05 then 8749 else k.unit end as unit,
        (k.mean + k.spread * (random() + random() + random() - 1.5) + k.more * case when exists (
            select from condition_occurrence as c where c.person_id = p.person_id
            and c.condition_concept_id in (k.condition, 4193704)) then 1 else 0 end)::numeric as value
    from person as p
    cross join (values
        (3016723, 8840, 0.9, 0.4, 0.5, 316139, 2),
        (3004410, 8554, 5.5, 0.8, 1.9, 201826, 1),
        (3004249, 8876, 122, 22, 18, 320128, 0),
        (3038553, 9531, 26, 9, 3, 201826, 1)
    ) as k(concept, unit, mean, spread, more, condition, digits)
    cross join generate_series(1, 3) as visit
    where random() < 0.4
) as m;
drop table persons;
