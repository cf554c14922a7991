-- Creates what hosted Supabase has before our first migration: roles, schemas and default privileges. Run once in
-- database postgres, as the cluster's superuser supabase_admin. The passwords are set separately when the cluster
-- starts.

create role anon nologin;
create role authenticated nologin;
create role service_role nologin bypassrls;
create role authenticator login noinherit;
grant anon, authenticated, service_role to authenticator;

-- As on hosted Supabase, the role that runs migrations is not a superuser.
create role postgres login createrole createdb bypassrls replication;
grant anon, authenticated, service_role to postgres with admin option;
grant authenticator to postgres with admin option;
grant pg_monitor, pg_read_all_data, pg_signal_backend to postgres with admin option;
alter database postgres owner to postgres;
grant all on database postgres to postgres;
-- A restore loads rows without triggers. From supabase/postgres, ansible/files/postgresql_config/supautils.conf.j2:
-- supautils.privileged_role_allowed_configs.
grant set on parameter session_replication_role to postgres;

create role supabase_auth_admin login noinherit createrole;
alter role supabase_auth_admin set search_path = 'auth';
grant create on database postgres to supabase_auth_admin;

create schema auth authorization supabase_auth_admin;
grant usage on schema auth to postgres, anon, authenticated, service_role;
alter default privileges for role supabase_auth_admin in schema auth grant all on tables to postgres;
alter default privileges for role supabase_auth_admin in schema auth grant all on sequences to postgres;
alter default privileges for role supabase_auth_admin in schema auth grant all on functions to postgres;

create schema extensions authorization postgres;
grant usage on schema extensions to anon, authenticated, service_role, supabase_auth_admin;
create extension if not exists pgcrypto with schema extensions;
create extension if not exists "uuid-ossp" with schema extensions;
create extension if not exists pg_stat_statements with schema extensions;

-- Hosted Supabase grants the API's roles everything in public by default; migrations must revoke it.
grant usage on schema public to postgres, anon, authenticated, service_role;
alter default privileges for role postgres in schema public grant all on tables to postgres, anon, authenticated, service_role;
alter default privileges for role postgres in schema public grant all on functions to postgres, anon, authenticated, service_role;
alter default privileges for role postgres in schema public grant all on sequences to postgres, anon, authenticated, service_role;

-- These limits are from supabase/postgres, migrations/db: init-scripts/00000000000000-initial-schema.sql, and
-- migrations 20220322085208, 20221028101028 and 20231130133139.
alter role anon set statement_timeout = '3s';
alter role authenticated set statement_timeout = '8s';
alter role authenticator set statement_timeout = '8s';
alter role authenticator set lock_timeout = '8s';
alter role supabase_auth_admin set idle_in_transaction_session_timeout = 60000;
alter role postgres set search_path = '$user', public, extensions;
