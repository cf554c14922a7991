-- Schemas reveal exposure: public is the Data API under row-level security, private is the accounts' server-owned
-- state, ai is the gateway. Everything starts closed; grants open what is meant to be open.

create schema private;
comment on schema private is
  'Server-owned state of accounts. No signed-in user reaches it: neither anon nor authenticated has usage here.';

create schema ai;
comment on schema ai is
  'The AI gateway: catalogue, credentials, runs, ledger. No signed-in user reaches it; gateway runs named functions.';

-- The service role works through the Data API's schema list and its own key.
grant usage on schema private, ai to service_role;

-- A fresh project hands everything in public to the API's roles. Take back what exists, then what will exist.
revoke all on all tables in schema public from anon, authenticated;
revoke all on all sequences in schema public from anon, authenticated;
revoke execute on all functions in schema public from public, anon, authenticated;

alter default privileges for role postgres in schema public revoke all on tables from anon, authenticated;
alter default privileges for role postgres in schema public revoke all on sequences from anon, authenticated;
alter default privileges for role postgres in schema public revoke execute on functions from anon, authenticated;

-- Only the global default can take execute from public; a schema's default can merely add to it.
alter default privileges for role postgres revoke execute on functions from public;

-- The service role is our server. A project may be set to expose nothing by default, so it is said here.
alter default privileges for role postgres in schema public
  grant select, insert, update, delete on tables to service_role;
alter default privileges for role postgres in schema public grant usage, select on sequences to service_role;
alter default privileges for role postgres in schema private
  grant select, insert, update, delete on tables to service_role;
alter default privileges for role postgres in schema private grant usage, select on sequences to service_role;
alter default privileges for role postgres in schema ai
  grant select, insert, update, delete on tables to service_role;
alter default privileges for role postgres in schema ai grant usage, select on sequences to service_role;

-- Roles belong to the cluster, so another database of it may have made this one already.
do $$
begin
  if not exists (select from pg_catalog.pg_roles where rolname = 'gateway') then
    create role gateway;
  end if;
end
$$;

-- Without a password nobody logs in: the operator sets it (alter role gateway password …).
alter role gateway with login noinherit nocreatedb nocreaterole;
alter role gateway set statement_timeout = '10s';
alter role gateway set lock_timeout = '5s';
-- A statement whose gateway has given up on it ends, whatever it waits for.
alter role gateway set client_connection_check_interval = '250ms';
alter role gateway set idle_in_transaction_session_timeout = '10s';
comment on role gateway is
  'Login of the gateway''s functions: under row-level security, owns nothing, executes named functions of ai only.';

grant usage on schema ai to gateway;

-- Who migrates may become gateway, to try what it may do; it takes over nothing by itself.
grant gateway to current_user with inherit false, set true;

create extension if not exists btree_gist with schema extensions;

-- Everyone may make temporary tables by default; gateway, which executes named functions, makes nothing.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
end
$$;

grant usage on schema private to supabase_auth_admin;
