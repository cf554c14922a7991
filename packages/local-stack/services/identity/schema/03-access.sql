-- Schema auth, third part: access to its tables, and the functions with which policies read a request.

-- No policies: only the owner and roles that bypass row security read these tables. Row security is off for the tables
-- of passkeys and OAuth client states, as on Supabase.
do $$
declare
  protected text;
begin
  foreach protected in array array[
    'users', 'identities', 'one_time_tokens', 'audit_log_entries', 'instances', 'sessions', 'refresh_tokens',
    'mfa_amr_claims', 'mfa_factors', 'mfa_challenges', 'flow_state', 'schema_migrations'
  ] loop
    execute format('alter table auth.%I enable row level security', protected);
    execute format('grant all on auth.%I to postgres', protected);
    execute format('grant select on auth.%I to postgres with grant option', protected);
  end loop;
end
$$;
grant all on auth.webauthn_credentials, auth.webauthn_challenges, auth.oauth_client_states to postgres;
grant all on sequence auth.refresh_tokens_id_seq to postgres;

-- These functions read the claims of the request's token. PostgREST stores all claims in one setting. Older versions
-- use one setting per claim.
create function auth.uid() returns uuid language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.sub', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
  )::uuid
$$;
comment on function auth.uid() is 'The user of this request, from its token; null without a token.';

create function auth.role() returns text language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.role', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
  )
$$;
comment on function auth.role() is 'The role in this request''s token.';

create function auth.email() returns text language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.email', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'
  )
$$;
comment on function auth.email() is 'The email in this request''s token; may be out of date.';

create function auth.jwt() returns jsonb language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')
  )::jsonb
$$;
comment on function auth.jwt() is 'All claims of this request''s token.';

grant execute on function auth.uid(), auth.role(), auth.email(), auth.jwt() to postgres;
