-- Reads the console's audit log, which shared/admin-log.sql writes.

-- Returns a page of the audit log, newest first. The reader is a token's verified claims, or {} for a service account.
-- Returns null if the reader or service account may no longer read the log. The filters are action (exact, or a prefix
-- that ends with a dot), actor (part of an email address or a service account's label), target (part of an email
-- address, name or other target, or a user's id), from and to (exclusive). The argument before is { createdAt, id } of the last line on the previous page.
-- before and after of a line have numbers as exact text. targetKind and targetId are kind and id of
-- private.audit_target.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50,
  service_account uuid default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the whole log for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  named_targets text[];
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not (
    service_account is null and private.can_read_console(reader)
    or private.service_account_may(service_account, 'admin:audit:read')
  ) then
    return null;
  end if;
  if of_target is not null then
    named_targets := private.targets_named(of_target);
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', coalesce(l.actor_email, private.service_account_label(l.service_account_name)),
      'serviceAccountId', l.service_account_id,
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'targetName', coalesce(l.target_name, t.name),
      'targetKind', t.kind,
      'targetId', t.id,
      'reason', l.reason,
      'before', private.with_exact_numbers(l.before),
      'after', private.with_exact_numbers(l.after),
      'requestId', l.request_id,
      'ip', host(l.ip),
      'createdAt', l.created_at
    ) order by l.created_at desc, l.id desc), '[]')
    from (
      select a.*, u.email as actor_email
      from private.admin_audit_log a
      left join auth.users u on u.id = a.actor_id
      where a.created_at >= starts_at
        and a.created_at < ends_at
        and (a.created_at, a.id) < (last_at, last_id)
        and (of_action is null or a.action = of_action or of_action like '%.' and starts_with(a.action, of_action))
        and (
          of_actor is null
          or position(of_actor in lower(coalesce(u.email, private.service_account_label(a.service_account_name)))) > 0
        )
        and (
          of_target is null
          or position(of_target in lower(concat_ws(' ', a.target, a.target_name))) > 0
          or a.target_user_id::text = of_target
          or a.target = any (named_targets)
        )
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
    left join lateral private.audit_target(l.target) t on true
  );
end
$$;

-- Returns what the console shows of a target now: the kind of page that it has, with the id in the page's address, and
-- its current name, for entries that keep none. Returns no row if it is deleted or has no page. Has no settings of its
-- own, so Postgres inlines it.
create or replace function private.audit_target(target text) returns table (kind text, id text, name text)
  language sql stable security invoker
as $$
  select f.kind, p.id, f.name
  from (
    select m[1] as kind, m[2] as id
    from regexp_match(
      target,
      '^((?:document of )?platform invoice|platform month|workspace|member|app|model|plan|provider|address|service account) (.+)$'
    ) m
  ) p
  cross join lateral (
    select 'workspace', w.name::text
    from public.workspaces w
    where p.kind = 'workspace' and w.id = private.uuid_or_null(p.id) and w.deleted_at is null
    union all
    select 'member', u.email::text
    from auth.users u
    where p.kind = 'member' and u.id = private.uuid_or_null(p.id) and u.deleted_at is null
    union all
    select case a.kind when 'openid' then 'openid_client' else 'app' end, a.display_name
    from private.apps a
    where p.kind = 'app' and a.name = p.id
    union all
    select 'model', m.display_name from ai.models m where p.kind = 'model' and m.id = p.id
    union all
    select 'plan', l.name from ai.plans l where p.kind = 'plan' and l.id = p.id
    union all
    select 'service_account', s.name
    from private.service_accounts s
    where p.kind = 'service account' and s.id = private.uuid_or_null(p.id)
    union all
    select 'platform_invoice', concat_ws(' ', i.provider, i.reference)
    from ai.invoice_book_entries i
    where p.kind like '%platform invoice' and i.id = private.uuid_or_null(p.id)
    union all
    select replace(p.kind, ' ', '_'), null where p.kind in ('provider', 'address', 'platform month')
  ) f (kind, name)
$$;

-- Returns the targets of existing workspaces and accounts whose name or email address contains a term, at most 100 of
-- each. Entries about them may have no name.
create or replace function private.targets_named(term text) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    (
      select 'workspace ' || w.id
      from public.workspaces w
      where lower(w.name) like private.containing(term) and w.deleted_at is null
      limit 100
    )
    union all
    select 'member ' || f from private.find_accounts_matching(term, 100) f
  )
$$;

-- Returns a JSON object with its numbers as text, because a reader's floats would round amounts. Returns anything else
-- unchanged.
create or replace function private.with_exact_numbers(state jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when jsonb_typeof(state) = 'object' then (
      select coalesce(jsonb_object_agg(
        f.key, case jsonb_typeof(f.value) when 'number' then to_jsonb(f.value #>> '{}') else f.value end
      ), '{}')
      from jsonb_each(state) f
    )
    else state
  end
$$;

-- Returns whether a session still belongs to an infrastructure admin and has passed a second factor. Takes the
-- session's verified claims. Does not check how long ago the second factor was passed, because each change checks that
-- before it begins. Not granted to any role, because it trusts the claims.
create or replace function private.can_read_console(claims jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.session_satisfies_mfa(claims) and exists (
    select
    from private.session_facts(claims) f
    where f.session_factor_verified and private.is_infrastructure_admin(f.user_id)
  )
$$;
