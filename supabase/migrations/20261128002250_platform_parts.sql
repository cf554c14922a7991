create type ai.platform_part as (
  kind text,
  workspace_id uuid,
  day date,
  account_id text,
  metered numeric,
  runs numeric,
  estimated_runs numeric,
  closed_runs numeric,
  imported numeric,
  invoiced numeric
);
comment on type ai.platform_part is
  'A part of a provider''s month. kind: metered (what a workspace''s runs cost), booked (a record of the platform''s book) or '
  'own (a record of a workspace''s own book, which never adds to the platform''s).';
