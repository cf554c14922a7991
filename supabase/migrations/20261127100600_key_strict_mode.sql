set lock_timeout = '500ms';

alter table ai.keys add column is_strict boolean not null default false;
comment on column ai.keys.is_strict is
  'Calls with members or tools that the provider would not get are refused. Otherwise these are left out and named in the answer.';

alter type ai.route_offer add attribute output_limit bigint;
