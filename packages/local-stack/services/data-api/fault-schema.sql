-- Objects for the Data API's fault tests.
create schema private;
grant usage on schema private to service_role;
create table private.secrets (id int primary key);
alter table private.secrets enable row level security;
grant select on private.secrets to service_role;
create function public.claim(name text) returns text language sql stable
  as $$ select current_setting('request.jwt.claims', true)::jsonb ->> name $$;
create table public.notes (
  id bigint generated always as identity primary key,
  owner uuid not null default public.claim('sub')::uuid,
  body text not null unique check (body <> ''),
  price numeric(24, 8) not null default 12.5
);
alter table public.notes enable row level security;
revoke all on public.notes from anon, authenticated;
create policy select_own on public.notes for select to authenticated using (owner = public.claim('sub')::uuid);
create policy insert_own on public.notes for insert to authenticated with check (owner = public.claim('sub')::uuid);
grant select, insert (body, owner) on public.notes to authenticated;
create type public.mood as enum ('calm', 'wild');
create table public.kinds (
  id int primary key, j jsonb, js json, t text[], n int[], x text, at timestamptz, num numeric, by bytea, jj jsonb[],
  m public.mood, ms public.mood[]
);
create function public.kind_of(value jsonb) returns text language sql immutable
  as $$ select jsonb_typeof(value) || ' ' || value $$;
create function public.add(a int, b int) returns int language sql immutable as 'select a + b';
create function public.settings() returns jsonb language sql stable as $$
  select jsonb_build_object('role', current_user, 'claims', current_setting('request.jwt.claims')::jsonb,
    'timeout', current_setting('statement_timeout'), 'path', current_setting('request.path')) $$;
create function public.fail(kind text) returns void language plpgsql as $$
begin
  case kind
    when 'raise' then raise exception 'no' using detail = 'd', hint = 'h';
    when 'status' then raise sqlstate 'PT402' using message = 'pay first';
    when 'whole' then raise sqlstate 'PGRST' using
      message = '{"code":"X1","message":"teapot"}', detail = '{"status":418,"headers":{"x-kind":"pot"}}';
    when 'serialise' then raise sqlstate '40001';
    when 'slow' then perform pg_sleep(60);
  end case;
end $$;
create table public.counters (id int primary key, value int not null default 0);
insert into public.counters values (1), (2);
grant all on public.counters to service_role;
create function public.count_up(by int default 1) returns int language sql volatile
  as $$ update public.counters set value = value + by where id = 1 returning value $$;
create function public.stable_count() returns int language plpgsql stable as $$ begin return public.count_up(); end $$;
create function public.immutable_count() returns int language plpgsql immutable as $$ begin return public.count_up(); end $$;
create function public.mixed() returns int language plpgsql stable as $$ begin return public.count_up(); end $$;
create function public.mixed(by int) returns int language plpgsql volatile as $$ begin return public.count_up(by); end $$;
create function public.reset_all() returns void language sql volatile as $$ update public.counters set value = 0 $$;
create function public.limits() returns jsonb language sql stable as $$
  select jsonb_build_object('statement', current_setting('statement_timeout'), 'lock', current_setting('lock_timeout')) $$;
