-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.book_settlements(ai.settlement[], ai.run_outcome[], boolean);

drop function ai.budget_fault(text, text, text, smallint[], numeric, bigint);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text, text, text, text, smallint[], bigint, text, smallint[], bigint);

drop function ai.platform_usage(date, date, text);

drop function ai.set_budget(text, uuid, uuid, numeric, text, text, text, smallint[], bigint);

drop function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day);

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor, subject, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  sessions bigint;
  ended_count integer;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.lock_app_credentials(account.id);
  sessions := private.count_account_sessions(account.id);
  ended_count := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended_count > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', sessions),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found
-- | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail, at } },
-- where last describes the latest change that an admin made to the address. Rate limits still apply, and a lifted block
-- does not lengthen the next one.
create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  block private.address_blocks;
  target text;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  target := format('address %s', block.address::inet);
  if block.lifted_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', target,
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
  return '{}';
end
$$;

-- Gives an account a role in the console, admin or finance, instead of any role that it has. Without a role, withdraws
-- the account's access. Returns changed, unchanged or no_account. Only the operator's command line calls this function,
-- so admins cannot create other admins. Writes each change to the audit log without an actor.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.set_console_role(account_email text, role text, reason text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  old_role text;
begin
  if role not in ('admin', 'finance') then
    raise exception 'unknown role %', role using errcode = 'invalid_parameter_value';
  end if;
  select * into account
  from auth.users u
  where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
  if not found then
    return 'no_account';
  end if;
  -- One change at a time, so that an account never has two roles.
  perform pg_advisory_xact_lock(hashtextextended('console role ' || account.id, 0));
  old_role := private.console_role(account.id);
  if old_role is not distinct from role then
    return 'unchanged';
  end if;
  delete from private.infrastructure_admins a where a.user_id = account.id;
  delete from private.finance_people f where f.user_id = account.id;
  if role = 'admin' then
    insert into private.infrastructure_admins (user_id, reason) values (account.id, set_console_role.reason);
  elsif role = 'finance' then
    insert into private.finance_people (user_id, reason) values (account.id, set_console_role.reason);
  end if;
  insert into private.admin_audit_log (action, target_user_id, target, reason, created_at)
  select c.action, account.id, account.email, set_console_role.reason, clock_timestamp()
  from (values (1, old_role || '.revoke'), (2, role || '.grant')) as c (place, action)
  where c.action is not null
  order by c.place;
  return 'changed';
end
$$;

-- Returns everybody with a role in the console, by email: [{ email, role, reason, createdAt, hasAuthenticator }].
-- Without an authenticator, the console cannot be used.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_console_people() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'email', u.email,
    'role', p.role,
    'reason', p.reason,
    'createdAt', p.created_at,
    'hasAuthenticator', exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified')
  ) order by u.email), '[]')
  from (
    select a.user_id, 'admin' as role, a.reason, a.created_at from private.infrastructure_admins a
    union all
    select f.user_id, 'finance', f.reason, f.created_at from private.finance_people f
  ) p
  join auth.users u on u.id = p.user_id
$$;

-- Grants the role admin, or withdraws any role. Until 0.5.0: the command line of release 0.3.0 calls it.
create or replace function private.set_infrastructure_admin(account_email text, admin boolean, reason text) returns text
  language sql volatile security invoker set search_path = ''
as $$
  select private.set_console_role(account_email, case when admin then 'admin' end, reason)
$$;

-- Returns the infrastructure admins as list_console_people does. Until 0.5.0: the command line and the doctor of release
-- 0.3.0 call it.
create or replace function private.list_infrastructure_admins() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(p order by p ->> 'email'), '[]')
  from jsonb_array_elements(private.list_console_people()) as p
  where p ->> 'role' = 'admin'
$$;

-- Registers an app with its first secret. The change is { actor, name, displayName, kind, origins, scopes, logoutUrl,
-- secretHash (the text of a bytea), reason, requestId, ip }. Returns {} or { refused: forbidden | taken (the name or an
-- origin) | invalid }.
create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'kind' = 'openid' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.app_origins (origin, app_id)
    select o, app.id from jsonb_array_elements_text(change -> 'origins') as o;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        backchannel_logout_uri = change ->> 'logoutUrl'
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Grants credits to a workspace or member, or withdraws credits. A grant first opens a missing account with the plan's
-- initial credits. The change is { actor, payer, ownerId, step: grant | withdraw, amount, reference, description (shown
-- to members in the ledger), reason, requestId, ip }. Returns {}, { repeated: true } if the reference was already used
-- for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another amount) |
-- insufficient (less is available) }.
-- Definer: the service role cannot change balances.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if direction is null or amount is null or amount <= 0 or coalesce(change ->> 'reference', '') = '' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if payer = 'workspace' then
    select w.personal_user_id into personal from public.workspaces w where w.id = owner_id and w.deleted_at is null;
  else
    select u.id into personal from auth.users u where u.id = owner_id and u.deleted_at is null and payer = 'member';
  end if;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if personal = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if direction < 0 then
    select a.id into account from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = owner_id;
    if not found then
      return jsonb_build_object('refused', 'insufficient');
    end if;
  else
    account := ai.open_credit_account(payer, owner_id, coalesce((
      select p.initial_credits from ai.paying_plan(payer, owner_id) p
    ), 0));
  end if;
  changed := ai.change_credits(account, direction * amount, change ->> 'description', change ->> 'reference');
  if changed ->> 'outcome' = 'repeated' then
    return jsonb_build_object('repeated', true);
  elsif changed ->> 'outcome' <> 'changed' then
    return jsonb_build_object('refused', changed ->> 'outcome');
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when direction > 0 then 'credits.grant' else 'credits.withdraw' end,
    'target', payer || ' ' || owner_id,
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Grants a model to a plan or to one workspace, or withdraws the grant. The change is { actor, model, plan or
-- workspace, granted, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | no_grantee | oneself
-- (the actor's personal workspace) | conflict (nothing to change, with last) }.
create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

-- Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is {
-- actor, model, version (private.model_version), place (the route's current position, or null to add a route), route,
-- reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel, enabled,
-- trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds }. Does not
-- change the provider's prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid }, or { refused:
-- conflict, last (private.last_admin_action) }.
create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  other_routes jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into other_routes
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    other_routes, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select new_route.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- Inserts the route before the other route that holds the requested position.
        select l.route, 2 * l.number as at from jsonb_array_elements(other_routes) with ordinality as l (route, number)
        union all
        select
          jsonb_build_object(
            'provider_id', fields -> 'providerId',
            'provider_model', fields -> 'providerModel',
            'enabled', fields -> 'enabled',
            'trusts_stated_cost', fields -> 'trustsStatedCost',
            'tier_multipliers', (
              select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
              from jsonb_each_text(fields -> 'tierMultipliers') as t
            ),
            'first_byte_seconds', fields -> 'firstByteSeconds',
            'idle_seconds', fields -> 'idleSeconds',
            'total_seconds', fields -> 'totalSeconds'
          ),
          2 * (fields ->> 'position')::integer - 1
        where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as new_route;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;

-- Edits a model, or adds a disabled model if version is null. The change is { actor, model, version
-- (private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, defaultOutputLimit, voices, reason, requestId,
-- ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id of the default
-- model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid |
-- default_changed | conflict (with last) }.
create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  saved_model ai.models;
  old_default ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (
        id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, default_output_limit, voices
      )
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        (change ->> 'defaultOutputLimit')::integer, all_voices
      )
      on conflict (id) do nothing
      returning * into saved_model;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Unsets only the default that the admin saw. If another model has become the default, the update below violates
      -- the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into old_default;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        default_output_limit = (change ->> 'defaultOutputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into saved_model;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || saved_model.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

-- Enables a model for callers with a plan that grants it, or disables it for all callers. The change is { actor, model,
-- enabled, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict }. conflict means that
-- there is nothing to change. It comes with last, the last admin action on the model.
create or replace function private.set_model_enabled(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  enable boolean := (change ->> 'enabled')::boolean;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if model.enabled = enable then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  update ai.models m set enabled = enable where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when enable then 'model.enable' else 'model.disable' end,
    'target', 'model ' || model.id,
    'before', jsonb_build_object('enabled', model.enabled),
    'after', jsonb_build_object('enabled', enable)
  ));
  return '{}';
end
$$;

-- Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version,
-- reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict }. conflict comes with
-- last, the last admin action on the model.
create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) <> change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if not private.was_never_enabled(model) then
    return jsonb_build_object('refused', 'used');
  end if;
  delete from ai.model_prices p where p.model_id = model.id;
  delete from ai.models m where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.delete', 'target', 'model ' || model.id, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

-- Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan),
-- name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs in
-- progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | payer_fixed
-- (a credit account already pays for the plan) | conflict (with last) }.
create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  old_plan ai.plans;
  saved ai.plans;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into old_plan from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(old_plan::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if old_plan.payer <> change ->> 'payer' and ai.plan_has_payers(old_plan) then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

-- Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the
-- account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor's personal workspace) | no_plan
-- (the plan is unknown, or is already the workspace's plan) | conflict (another admin changed the plan; last is
-- private.last_admin_action) }.
create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  workspace public.workspaces;
  target text;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locks the new plan, so that the plan's payer does not change before the workspace moves.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;

-- Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{
-- model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or {
-- refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for
-- the same model, provider, service tier and input size) or a refusal of private.add_model_price.
create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope must have been based on the newest price in the price book. Adding that first price
    -- changes the newest price, so every later price of the scope must have the same `latest` as the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price((change - 'prices') || proposed || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;

-- Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and ends
-- when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id of the
-- newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd,
-- cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd,
-- requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | past
-- | taken | conflict (with last) }.
create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  new_price ai.model_prices;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Serializes price changes of a model.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- A price can't start in the past, because runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- Refuses the change if prices of any service tier have changed since the admin saw them. Also compares the number of
  -- prices, because cancelling an older price leaves the newest one the same.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    ) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into new_price;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(new_price)
  ));
  return jsonb_build_object('from', lower(new_price.valid), 'until', upper(new_price.valid));
end
$$;

-- Cancels a price that begins in more than a minute. The previous price then stays in force until the next price
-- begins. The change is { actor, model, price, previous (id of the previous price that the admin saw, or null), until
-- (the end of the price that the admin saw), reason, requestId, ip }. Returns {} or { refused: forbidden | not_found |
-- started | conflict (with last) }.
create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided based on the prices before and after this price, so neither may have changed since.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- Refuses to cancel a price that begins within a minute, because calls could be charged that price before the
  -- cancellation commits. Uses clock_timestamp(), because now() is the time before the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

-- Sets or removes a provider's limits. The change is { actor, provider, seen (the version that the admin saw),
-- requestsPerMinute, tokensPerMinute, reason, requestId, ip }; null removes a limit. What was taken of a limit stays
-- taken. Returns {} or { refused: forbidden | not_found | conflict (with last) }.
create or replace function private.save_provider_limit(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  provider text := change ->> 'provider';
  requests integer := (change ->> 'requestsPerMinute')::integer;
  tokens bigint := (change ->> 'tokensPerMinute')::bigint;
  before ai.provider_limits;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One change at a time, because the row may not exist yet.
  perform pg_advisory_xact_lock(hashtextextended('provider limit ' || provider, 0));
  if jsonb_array_length(private.list_provider_limits(provider)) = 0 then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into before from ai.provider_limits l where l.provider_id = provider;
  if private.provider_limit_version(before) is distinct from change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('provider ' || provider));
  end if;
  if num_nonnulls(requests, tokens) = 0 then
    delete from ai.provider_limits l where l.provider_id = provider;
  else
    insert into ai.provider_limits as l (provider_id, requests_per_minute, tokens_per_minute)
    values (provider, requests, tokens)
    on conflict (provider_id) do update
    set requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'provider.limit',
    'target', 'provider ' || provider,
    'before', jsonb_build_object(
      'requests_per_minute', before.requests_per_minute, 'tokens_per_minute', before.tokens_per_minute
    ),
    'after', jsonb_build_object('requests_per_minute', requests, 'tokens_per_minute', tokens)
  ));
  return '{}';
end
$$;

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at, i.currency, i.exchange_rate, i.net_amount, i.tax_amount, i.total_amount
  from ai.external_provider_invoices i;

-- Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay,
-- days, dates, accountCount, accounts, added, unchanged, corrected, replaced, remaining, cleared, state, closedMonths } or
-- { outcome: invalid, param, message }. days is the number of daily totals in the file, and dates that of their different
-- days. accounts has the first 50 accounts, and corrected.list the first 100 corrected totals. remaining and cleared count
-- imported days that are missing from the file. Not granted to any role.
create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  days ai.cost_file_day[];
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  return jsonb_build_object(
    'outcome', 'previewed',
    'byCurrency', (
      select jsonb_agg(
        jsonb_build_object(
          'currency', c.currency, 'amount', trim_scale(c.amount)::text, 'amountUsd', trim_scale(round(c.amount_usd, 12))::text
        )
        order by c.currency <> 'USD', c.currency collate "C"
      )
      from (
        select a.currency, sum(a.amount) as amount, sum(a.amount * a.rate) as amount_usd
        from ai.cost_document_amounts(document) a
        group by a.currency
      ) c
    ),
    'replaced', ai.costs_replaced_by_file(book, app, document, days),
    'state', ai.cost_file_state(book, app, document, days),
    'closedMonths', ai.months_closed_to_file(book, days)
  ) || (
    select jsonb_object_agg(k.change, jsonb_build_object(
      'days', (select count(*) from unnest(days) d where d.change = k.change),
      'amountUsd', trim_scale(coalesce((select sum(d.stored_usd) from unnest(days) d where d.change = k.change), 0))::text
    ))
    from unnest('{remaining,cleared}'::text[]) k (change)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
      'dates', count(distinct d.day),
      'added', jsonb_build_object(
        'days', count(*) filter (where d.change = 'added'),
        'amountUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'added'), 0))::text
      ),
      'unchanged', jsonb_build_object('days', count(*) filter (where d.change = 'unchanged')),
      'corrected', jsonb_build_object(
        'days', count(*) filter (where d.change = 'corrected'),
        'fromUsd', trim_scale(coalesce(sum(d.stored_usd) filter (where d.change = 'corrected'), 0))::text,
        'toUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'corrected'), 0))::text,
        'list', (
          select coalesce(jsonb_agg(
            jsonb_build_object(
              'accountId', l.account_id, 'day', l.day,
              'fromUsd', trim_scale(l.stored_usd)::text, 'toUsd', trim_scale(l.amount_usd)::text
            )
            order by l.day, l.account_id collate "C"
          ), '[]')
          from (
            select *
            from unnest(days) c
            where c.change = 'corrected'
            order by c.day, c.account_id collate "C"
            limit 100
          ) l
        )
      )
    )
    from unnest(days) d
    where d.change not in ('remaining', 'cleared')
  ) || (
    select jsonb_build_object(
      'accountCount', max(a.account_count),
      'accounts', jsonb_agg(
        jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
        order by a.account_id collate "C"
      )
    )
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd, count(*) over () as account_count
      from unnest(days) d
      where d.change not in ('remaining', 'cleared')
      group by d.account_id
      order by d.account_id collate "C"
      limit 50
    ) a
  );
end
$$;

-- Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also
-- returns the days in the document's range that earlier files had and the document lacks. The change of such a day is
-- "cleared" if the document's clear is true, and "remaining" otherwise. Not granted to any role.
create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql stable security invoker set search_path = ''
  -- Without recent statistics the planner expects one record, and would use a nested loop that compares every day with
  -- every record.
  set enable_nestloop = off set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- Selects the last observed record of each account and run id, as ai.find_cost does.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), services as materialized (
      select * from ai.cost_document_services(document)
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), missing as (
      -- Days of this period that an earlier import stated and this file lacks. Such a file may name a wrong account or
      -- leave out services.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- A record is unchanged if it has the same values as the file and is the newest record of its day. A file
            -- without services leaves the record's services as they are.
            when s.id = c.id
              and s.amount_usd = t.amount_usd
              and s.original is not distinct from t.original
              and (f.services is null or f.services is not distinct from k.services) then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      left join services f on f.account_id = t.account_id and f.day = t.day
      left join ai.cost_services k on k.cost_id = s.id and k.revision = s.revision
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from missing l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

-- Returns a hash of the result of ai.compare_cost_file. The hash changes if the file changes, or if the records that
-- the file corrects or replaces change. Not granted to any role.
create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql stable security invoker set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days),
    document -> 'services', document -> 'serviceCategories',
    case when document ? 'services' then jsonb_path_query_array(document, '$.days[*].parts') end,
    to_jsonb(array(select d from unnest(days) d where d.change <> 'remaining'))
  ), 'UTF8')), 'hex')
$$;

-- Returns the services of an import's current daily totals: { list: [{ service, amountUsd }], others: { services,
-- amountUsd } }. list has the 50 largest amounts, and others the rest, so both add up to the totals. Returns null if the
-- totals have no services. A null service has the lines that name none. Not granted to any role.
create or replace function ai.imported_services(import ai.cost_imports) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with services as (
    select nullif(v.key, '') as service, sum(v.value::numeric) as amount_usd
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    cross join jsonb_each_text(s.services) v
    where c.workspace_id = (import).workspace_id
      and c.app_id = (import).app_id
      and ai.provider_name(c.provider) = (import).provider
      and c.granularity = 'account_day'
      and c.import_id = (import).id
    group by v.key
  ), ranked as (
    select *, row_number() over (order by abs(s.amount_usd) desc, s.service collate "C") as place from services s
  )
  select jsonb_build_object(
    'list', jsonb_agg(
      jsonb_build_object('service', r.service, 'amountUsd', trim_scale(r.amount_usd)::text) order by r.place
    ) filter (where r.place <= 50),
    'others', jsonb_build_object(
      'services', count(*) filter (where r.place > 50),
      'amountUsd', trim_scale(coalesce(sum(r.amount_usd) filter (where r.place > 50), 0))::text
    )
  )
  from ranked r
  having count(*) > 0
$$;

-- Claims a provider's importer for five minutes if its next attempt is due and no attempt is in progress. Returns {
-- lease, lastCompleteDay } or null.
create or replace function private.claim_cost_import(of_provider text) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  claimed jsonb;
begin
  insert into ai.cost_importers (provider) values (of_provider) on conflict do nothing;
  update ai.cost_importers i
  set lease = gen_random_uuid(), leased_until = now() + interval '5 minutes', last_attempt_at = now()
  where i.provider = of_provider and i.next_attempt_at <= now() and coalesce(i.leased_until <= now(), true)
  returning jsonb_build_object('lease', i.lease, 'lastCompleteDay', i.last_complete_day) into claimed;
  return claimed;
end
$$;

-- Stores the costs of a range of days, both inclusive, which the provider has answered completely, and advances the
-- importer to the last one. The document is that of a cost file (import-cost-files.sql), but may have no days. Returns {
-- outcome: stored }, { outcome: lost } if the importer was claimed again, or { outcome: changed } or { outcome: invalid }
-- of ai.store_cost_file. Anything but stored leaves the importer as it is.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.store_imported_costs(
  of_provider text, held_lease uuid, first_day date, last_day date, document jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  days jsonb;
  answer jsonb;
begin
  perform from ai.cost_importers i where i.provider = of_provider and i.lease = held_lease for update;
  if not found then
    return '{"outcome": "lost"}';
  end if;
  days := (document -> 'days') || ai.uncharged_days(of_provider, first_day, last_day, document);
  if days <> '[]' then
    answer := ai.store_cost_file(
      ai.platform_book(), ai.platform_book(), document || jsonb_build_object('days', days), null,
      '{"action": "costs.import_automatically", "reason": "Imported from the provider''s API"}'
    );
    if answer ->> 'outcome' <> 'imported' then
      return answer;
    end if;
  end if;
  update ai.cost_importers i
  set
    missed = case
      when first_day > i.last_complete_day + 1 then i.missed + datemultirange(daterange(i.last_complete_day + 1, first_day))
      else i.missed
    end,
    last_complete_day = greatest(i.last_complete_day, last_day),
    leased_until = now() + interval '5 minutes'
  where i.provider = of_provider;
  return '{"outcome": "stored"}';
end
$$;

-- Returns the days of a range that have a cost in the platform's book and none in the document, as days of a document
-- that set them to 0 and have no services. Only accounts that the document's format has imported before count, so costs
-- that come from files under other account names stay. Not granted to any role.
create or replace function ai.uncharged_days(of_provider text, first_day date, last_day date, document jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'accountId', c.account_id, 'day', c.day, 'amounts', '[{"currency": "USD", "amount": "0"}]'::jsonb,
    'parts', '[]'::jsonb
  )), '[]')
  from (
    select distinct e.account_id, (e.occurred_at at time zone 'UTC')::date as day
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.service is null
      and e.amount_usd <> 0
      and e.occurred_at >= first_day::timestamp at time zone 'UTC'
      and e.occurred_at < (last_day + 1)::timestamp at time zone 'UTC'
  ) c
  where exists (
    select
    from ai.cost_book_entries e
    join ai.cost_imports i on i.id = e.import_id
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.account_id = c.account_id
      and i.format = document ->> 'format'
  ) and (c.account_id, c.day) not in (
    select d.value ->> 'accountId', (d.value ->> 'day')::date from jsonb_array_elements(document -> 'days') d
  )
$$;

-- Ends an attempt and sets the time of the next one: in six hours after a success, in an hour if the provider has not
-- answered a completed day yet, and otherwise after a wait that doubles from a minute to six hours and is at least what
-- the provider asked for. An attempt that a person requested meanwhile stays due. Does nothing if the importer was
-- claimed again.
create or replace function private.finish_cost_import(
  of_provider text, held_lease uuid, error text default null, is_late boolean default false, retry_after_seconds integer default 0
) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.cost_importers i
  set
    lease = null,
    leased_until = null,
    last_error = left(error, 500),
    failures = case when error is null or is_late then 0 else i.failures + 1 end,
    next_attempt_at = case
      when i.next_attempt_at > i.last_attempt_at then i.next_attempt_at
      when error is null then now() + interval '6 hours'
      when is_late then now() + interval '1 hour'
      else now() + greatest(
        least(interval '1 minute' * 2 ^ least(i.failures, 9), interval '6 hours'),
        make_interval(secs => least(retry_after_seconds, 86400))
      )
    end
  where i.provider = of_provider and i.lease = held_lease
$$;

-- Returns the days that an importer missed and that the platform's book has no cost for, as ranges. Not granted to any
-- role.
create or replace function ai.missed_days(importer ai.cost_importers) returns datemultirange
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(range_agg(daterange(d.day::date, d.day::date + 1)), '{}')
  from unnest((importer).missed) as r (days)
  cross join generate_series(lower(r.days), upper(r.days) - 1, '1 day') as d (day)
  where not exists (
    select
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.provider = (importer).provider
      and e.occurred_at >= d.day::timestamp at time zone 'UTC'
      and e.occurred_at < (d.day + interval '1 day')::timestamp at time zone 'UTC'
  )
$$;

-- Returns the state of all importers: [{ provider, lastCompleteDay, missed: [{ from, to }], nextAttemptAt, lastAttemptAt,
-- lastError, failures, isRunning }].
-- Definer: functions that read books are not granted to the service role.
create or replace function private.read_cost_importers() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', i.provider,
    'lastCompleteDay', i.last_complete_day,
    'missed', (
      select coalesce(jsonb_agg(jsonb_build_object('from', lower(r.days), 'to', upper(r.days) - 1) order by r.days), '[]')
      from unnest(ai.missed_days(i)) as r (days)
    ),
    'nextAttemptAt', i.next_attempt_at,
    'lastAttemptAt', i.last_attempt_at,
    'lastError', i.last_error,
    'failures', i.failures,
    'isRunning', coalesce(i.leased_until > now(), false)
  ) order by i.provider), '[]')
  from ai.cost_importers i
$$;

-- Records that the days that an importer missed, up to a day, had no costs, for a person who may use the platform's book,
-- and records it in the audit log. The change is { provider, actor, lastDay, reason, requestId, ip }. Returns {} or {
-- refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.confirm_missed_days(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  confirmed datemultirange;
  importer ai.cost_importers;
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  select * into importer from ai.cost_importers i where i.provider = change ->> 'provider' for update;
  confirmed := ai.missed_days(importer) * datemultirange(daterange(null, (change ->> 'lastDay')::date, '[]'));
  if isempty(confirmed) is not false then
    return '{}';
  end if;
  update ai.cost_importers i set missed = i.missed - confirmed where i.provider = importer.provider;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.confirm_missed_days', 'target', 'costs ' || importer.provider,
    'after', jsonb_build_object('daysWithoutCosts', confirmed::text)
  ));
  return '{}';
end
$$;

-- Makes an importer's next attempt due now, for a person who may use the platform's book, and records it in the audit
-- log. The change is { provider, actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.request_cost_import(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  insert into ai.cost_importers (provider) values (change ->> 'provider')
  on conflict (provider) do update set next_attempt_at = now();
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.request_import', 'target', 'costs ' || (change ->> 'provider')
  ));
  return '{}';
end
$$;

-- Returns the first error in the services of a document whose other fields are valid, or null if they are valid or if the
-- document has none. The parts of a day add up to its amounts in each currency. Not granted to any role.
create or replace function ai.cost_services_fault(document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  found_fault record;
  parts jsonb;
  service_count integer;
begin
  if not document ? 'services' then
    return null;
  elsif jsonb_typeof(document -> 'services') <> 'array'
    or jsonb_array_length(document -> 'services') not between 1 and 5000 then
    return ai.cost_fault('services', 'A file has 1 to 5,000 services.');
  end if;
  select s.value as name into found_fault
  from jsonb_array_elements(document -> 'services') s
  where jsonb_typeof(s.value) <> 'string' or not (s.value = '""' or ai.is_external_id(s.value #>> '{}'))
  limit 1;
  if found then
    return ai.cost_fault('services', format('This is not a service: %s', left(found_fault.name::text, 200)));
  end if;
  if jsonb_typeof(coalesce(document -> 'serviceCategories', '{}')) <> 'object' then
    return ai.cost_fault('serviceCategories', 'Categories name a service each.');
  end if;
  select c.key into found_fault
  from jsonb_each(coalesce(document -> 'serviceCategories', '{}')) c
  where jsonb_typeof(c.value) <> 'string' or char_length(c.value #>> '{}') > 64 or not document -> 'services' ? c.key
  limit 1;
  if found then
    return ai.cost_fault('serviceCategories', format('This is not a service with a category: %s', left(found_fault.key, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where jsonb_typeof(d.value -> 'parts') is distinct from 'array'
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has no parts by service.', found_fault.day));
  end if;
  parts := jsonb_path_query_array(document, '$.days[*].parts[*]');
  service_count := jsonb_array_length(document -> 'services');
  if jsonb_array_length(parts) > 100000 then
    return ai.cost_fault('services', 'A file has at most 100,000 parts by service. Import a shorter range.');
  end if;
  select p.value as part into found_fault
  from jsonb_array_elements(parts) p
  where not coalesce(
    p.value ->> 0 ~ '^[0-9]{1,5}$'
      and (p.value ->> 0)::integer < service_count
      and p.value ->> 1 ~ '^[A-Z]{3}$'
      and p.value ->> 2 ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$',
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not the part of a service: %s', left(found_fault.part::text, 200)));
  end if;
  select s.day into found_fault
  from (
    select a.account_id, a.day, a.currency, a.amount
    from ai.cost_document_amounts(document) a
    union all
    select p.account_id, p.day, p.currency, -p.amount
    from ai.cost_document_parts(document) p
  ) s
  group by s.account_id, s.day, s.currency
  having sum(s.amount) <> 0
  limit 1;
  if found then
    return ai.cost_fault('days', format('The services of %s do not add up to its amounts.', found_fault.day));
  end if;
  return null;
end
$$;

-- Returns the parts by service of a valid document, each with the position of its service and the exchange rate from its
-- currency to USD. Returns none if the document has no services. Not granted to any role.
create or replace function ai.cost_document_parts(document jsonb)
  returns table (account_id text, day date, service_at integer, currency text, amount numeric, rate numeric)
  language sql stable security invoker set search_path = ''
as $$
  -- Takes what it needs out of the document once, because each access to a large document reads it again.
  with rates as materialized (
    select document -> 'rates' as of_currency where document ? 'services'
  ), days as materialized (
    select d.value ->> 'accountId' as account_id, (d.value ->> 'day')::date as day, d.value -> 'parts' as parts
    from jsonb_array_elements(document -> 'days') d
  )
  select
    d.account_id, d.day, (p.value ->> 0)::integer, p.value ->> 1, (p.value ->> 2)::numeric,
    case p.value ->> 1 when 'USD' then 1 else (r.of_currency ->> (p.value ->> 1))::numeric end
  from rates r
  cross join days d
  cross join jsonb_array_elements(d.parts) p
$$;

-- Returns the services of each account and day of a valid document, with amounts in USD that add up to the day's total.
-- Each amount is rounded to 12 decimals, as the total is, and the service with the largest amount takes what rounding
-- leaves. Not granted to any role.
create or replace function ai.cost_document_services(document jsonb)
  returns table (account_id text, day date, services jsonb)
  language sql stable security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  with parts as materialized (
    select p.account_id, p.day, p.service_at, sum(p.amount * p.rate) as exact
    from ai.cost_document_parts(document) p
    group by p.account_id, p.day, p.service_at
  ), remainders as materialized (
    select
      p.account_id, p.day, round(sum(p.exact), 12) - sum(round(p.exact, 12)) as amount_usd,
      (array_agg(p.service_at order by abs(p.exact) desc, p.service_at))[1] as service_at
    from parts p
    group by p.account_id, p.day
  )
  select
    p.account_id, p.day,
    jsonb_object_agg(n.name, trim_scale(
      round(p.exact, 12) + case p.service_at when r.service_at then r.amount_usd else 0 end
    ))
  from parts p
  join remainders r on r.account_id = p.account_id and r.day = p.day
  join jsonb_array_elements_text(document -> 'services') with ordinality n (name, position)
    on n.position = p.service_at + 1
  group by p.account_id, p.day
$$;

-- Stores the services of the days that an import wrote. Not granted to any role.
create or replace function ai.store_cost_services(book uuid, app uuid, new_import_id uuid, document jsonb) returns void
  language sql volatile security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  insert into ai.cost_services as s (cost_id, revision, services)
  select c.id, c.revision, d.services
  from ai.cost_document_services(document) d
  join ai.external_provider_costs c
    on c.account_id = d.account_id and c.occurred_at = d.day::timestamp at time zone 'UTC'
  -- No index has import_id. These conditions match the index of daily totals.
  where c.workspace_id = book
    and c.app_id = app
    and ai.provider_name(c.provider) = ai.provider_name(document ->> 'provider')
    and c.granularity = 'account_day'
    and c.import_id = new_import_id
  on conflict (cost_id) do update set revision = excluded.revision, services = excluded.services
$$;

-- Rejects services that do not add up to the total that they belong to.
create or replace function ai.reject_wrong_cost_services() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not exists (
    select
    from ai.external_provider_costs c
    where c.id = new.cost_id
      and c.revision = new.revision
      and c.granularity = 'account_day'
      and c.amount_usd = (select sum(s.value::numeric) from jsonb_each_text(new.services) s)
  ) then
    raise exception 'the services of cost % do not add up to its amount', new.cost_id using errcode = 'check_violation';
  end if;
  return null;
end
$$;

-- Returns the services of imported daily totals, without totals that have none: { outcome: listed, records: [{ id,
-- services: [{ service, category, amountUsd }] }] } or ai.book_refusal. The service is null for lines that name none, and
-- the category is null if the file states none. The amounts of a record add up to its amountUsd.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_cost_services(member_id uuid, workspace uuid, cost_ids uuid[]) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'listed', 'records', coalesce(jsonb_agg(
      jsonb_build_object(
        'id', c.id,
        'services', (
          select jsonb_agg(
            jsonb_build_object(
              'service', nullif(v.key, ''), 'category', i.service_categories ->> v.key, 'amountUsd', v.value
            )
            order by v.key collate "C"
          )
          from jsonb_each_text(s.services) v
        )
      )
    ), '[]'))
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    left join ai.cost_imports i on i.id = c.import_id
    where c.workspace_id = workspace and c.id = any (cost_ids)
  ))
$$;

-- Compares an invoice with a book, for a person to review before the invoice is stored permanently. Returns { outcome:
-- reviewed, reviewedAt, appName, kept, differs, comparison }, { outcome: not_issued_yet }, { outcome: month_closed,
-- months }, { outcome: cannot_replace, param, message }, ai.book_refusal or ai.app_refusal. kept is the stored invoice with the same key, if any. differs
-- lists the fields in which kept is different, except for the time of the review. comparison is ai.invoice_comparison.
-- Writes nothing.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  stored ai.invoice_book_entries;
  replacement ai.invoice_book_entries;
  closed text[];
  fault jsonb;
begin
  if refusal is not null then
    return refusal;
  elsif (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  replacement := ai.find_replacement(workspace, app, record);
  fault := ai.refused_replacement(workspace, app, record);
  if fault is null and stored.id is null and replacement.id is not null then
    fault := ai.replaced_already(record, replacement);
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'cannot_replace') || fault;
  end if;
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', closed);
  end if;
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when stored.id is not null then ai.invoice_summary(stored) end,
    'differs', case when stored.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(stored, record || jsonb_build_object('reviewedAt', stored.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), stored.id)
  );
end
$$;

-- Compares an invoice with its provider's metered and imported cost for the days that the invoice covers
-- (ai.invoice_days), in the scope of ai.reconcile_costs: an invoice with an account is compared with that account, and
-- one without an account with all accounts of the provider. An account's meteredUsd is null if a run of the provider
-- has a cost but names no account. Also returns the total of the scope's other invoices for these days, and the
-- difference between all of the scope's invoices and the imported cost. Ignores replaced invoices. Returns null if the
-- invoice covers more than 366 days. Not granted to any role.
create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  of_account text := record ->> 'accountId';
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Compares no period of more than 366 days, because no report covers such a period.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (of_account is null or (c.cost).account_id = of_account);
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and (of_account is null or i.account_id = of_account)
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- Excludes the invoice that the record replaces. The record names that invoice's reference in `replaces`, and both
    -- belong to the same app and account.
    and (i.app_id, i.account_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), of_account, record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select case
        when of_account is null or coalesce(bool_and(m.account_id is not null) filter (where m.metered <> 0), true)
          then trim_scale(coalesce(sum(m.metered) filter (where of_account is null or m.account_id = of_account), 0))::text
      end
      from (
        select c.account_id, sum(c.metered) as metered
        from ai.metered_costs(book, window_from, window_to) c
        where c.provider = of_provider
        group by c.account_id
      ) m
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

-- Returns the exchange rate of the latest cost file with which days of an invoice's provider and period were imported,
-- and that file: { outcome: found, rate, import }. The record is { provider, currency, issuedOn, periodStart,
-- periodEnd }. Returns { outcome: none } if no such file has a rate for the currency, or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.find_import_rate(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'found', 'rate', i.rates ->> (record ->> 'currency'), 'import', ai.cost_import_summary(i.id)
    )
    from ai.cost_imports i
    cross join lateral (
      select ai.invoice_days(
        (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
      ) as days
    ) d
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = ai.provider_name(record ->> 'provider')
      and i.rates ? (record ->> 'currency')
      and exists (
        select
        from ai.external_provider_costs c
        where c.workspace_id = workspace
          and c.app_id = app
          and ai.provider_name(c.provider) = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
          and c.occurred_at >= lower(d.days)::timestamp at time zone 'UTC'
          and c.occurred_at < upper(d.days)::timestamp at time zone 'UTC'
      )
    order by i.imported_at desc, i.id desc
    limit 1
  ), '{"outcome": "none"}')
$$;

-- Stores an invoice that a person enters. Returns the result of ai.store_provider_invoice or { refused: not_allowed |
-- app_not_linked | month_closed }. For the platform's book, the change is { reason, requestId, ip }, which the audit log
-- records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.record_provider_invoice(
  member_id uuid, workspace uuid, app uuid, record jsonb, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  closed text[];
  answer jsonb;
begin
  if refusal is not null then
    return jsonb_build_object('refused', refusal ->> 'outcome');
  end if;
  perform ai.hold_open_months(workspace);
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('refused', 'month_closed', 'months', closed);
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      workspace, app, record || jsonb_build_object('id', answer -> 'id'), change || jsonb_build_object('actor', member_id)
    );
  end if;
  return answer;
end
$$;

-- Adds an invoice to a book. Returns the invoice's id, or null if another invoice already has one of its unique keys: this
-- reference is recorded, or the invoice to replace is already replaced.
create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at, currency, exchange_rate, net_amount, tax_amount, total_amount
  )
  select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
    r.period_end, r.reviewed_at, r.currency, r.exchange_rate, r.net_amount, r.tax_amount, r.total_amount
  from ai.invoice_of(record) r
  on conflict do nothing
  returning id
$$;

-- Returns a record in the form in which it is stored, with defaults and a normalized provider name. Without a net amount,
-- only the USD amount is known and no currency is stored.
create or replace function ai.invoice_of(record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select r
  from jsonb_populate_record(null::ai.invoice_book_entries, jsonb_build_object(
    'provider', ai.provider_name(record ->> 'provider'),
    'account_id', record ->> 'accountId',
    'reference', record ->> 'reference',
    'kind', coalesce(record ->> 'kind', 'invoice'),
    'replaces', record ->> 'replaces',
    'amount_usd', record -> 'amountUsd',
    'issued_on', record ->> 'issuedOn',
    'period_start', record ->> 'periodStart',
    'period_end', record ->> 'periodEnd',
    'reviewed_at', record ->> 'reviewedAt'
  ) || case when record ->> 'netAmount' is null then '{}' else jsonb_build_object(
    'currency', coalesce(record ->> 'currency', 'USD'),
    'exchange_rate', coalesce(record ->> 'exchangeRate', '1'),
    'net_amount', record -> 'netAmount',
    'tax_amount', record -> 'taxAmount',
    'total_amount', record -> 'totalAmount'
  ) end) r
$$;

-- Returns the fields in which a record differs from the stored invoice with the same key. Returns none for an identical
-- retry.
create or replace function ai.invoice_differences(stored ai.invoice_book_entries, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array_remove(
    array[
      case when (stored).kind <> r.kind then 'kind' end,
      case when (stored).replaces is distinct from r.replaces then 'replaces' end,
      -- A record with only the USD amount differs by amountUsd from an invoice that also states its currency.
      -- Until 0.5.0: servers of 0.3.0 don't know the other names.
      case
        when (stored).amount_usd <> r.amount_usd or r.net_amount is null and (stored).net_amount is not null
        then 'amountUsd'
      end,
      case when r.net_amount is not null and (stored).currency is distinct from r.currency then 'currency' end,
      case when r.net_amount is not null and (stored).exchange_rate is distinct from r.exchange_rate then 'exchangeRate' end,
      case when r.net_amount is not null and (stored).net_amount is distinct from r.net_amount then 'netAmount' end,
      case when r.net_amount is not null and (stored).tax_amount is distinct from r.tax_amount then 'taxAmount' end,
      case when r.net_amount is not null and (stored).total_amount is distinct from r.total_amount then 'totalAmount' end,
      case when (stored).issued_on <> r.issued_on then 'issuedOn' end,
      case when (stored).period_start is distinct from r.period_start then 'periodStart' end,
      case when (stored).period_end is distinct from r.period_end then 'periodEnd' end,
      case when (stored).reviewed_at <> r.reviewed_at then 'reviewedAt' end
    ],
    null
  )
  from ai.invoice_of(record) r
$$;

-- Logs a recorded invoice, whose record has its id: in the workspace's activity log, or in the audit log for the
-- platform's book. The change is { actor, reason, requestId, ip }. An invoice that an app sent has no actor.
create or replace function ai.log_recorded_invoice(book uuid, app uuid, record jsonb, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
begin
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (record ->> 'id'),
      'after', jsonb_strip_nulls(record - 'id') || jsonb_build_object('provider', name)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
  perform private.log_workspace_change(
    book, 'provider_invoice.recorded', (record ->> 'id')::uuid, concat_ws(' ', name, record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces',
      'totalAmount', record ->> 'totalAmount',
      'currency', case when record ->> 'totalAmount' is not null then coalesce(record ->> 'currency', 'USD') end
    ))
  );
end
$$;

-- Attaches a document, sent as base64, to an invoice of a book. Returns { outcome: attached }, { outcome: unchanged } if
-- this document is already attached, { outcome: has_document | not_found }, { outcome: storage_full, maxBytes } or
-- ai.book_refusal. The caller has validated the document. For the platform's book, the change is { reason, requestId,
-- ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.attach_invoice_document(
  member_id uuid, workspace uuid, invoice_id uuid, file_name text, content text, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  bytes bytea := decode(attach_invoice_document.content, 'base64');
  invoice ai.invoice_book_entries;
  stored ai.invoice_documents;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One document of a book at a time, because the limit is for their total size.
  perform pg_advisory_xact_lock(hashtextextended('ai.attach_invoice_document ' || workspace, 0));
  select * into invoice
  from ai.invoice_book_entries i
  where i.id = attach_invoice_document.invoice_id and i.book_id = workspace;
  if invoice.id is null then
    return '{"outcome": "not_found"}';
  end if;
  select * into stored from ai.invoice_documents d where d.invoice_id = invoice.id;
  if stored.invoice_id is not null then
    return jsonb_build_object('outcome', case stored.sha256 when sha256(bytes) then 'unchanged' else 'has_document' end);
  end if;
  if octet_length(bytes) > ai.max_book_document_bytes() - (
    select coalesce(sum(d.size_bytes), 0) from ai.invoice_documents d where d.workspace_id = workspace
  ) then
    return jsonb_build_object('outcome', 'storage_full', 'maxBytes', ai.max_book_document_bytes());
  end if;
  insert into ai.invoice_documents (invoice_id, workspace_id, file_name, sha256, content, attached_by)
  values (invoice.id, workspace, attach_invoice_document.file_name, sha256(bytes), bytes, member_id);
  perform ai.log_attached_document(invoice, change || jsonb_build_object('actor', member_id));
  return '{"outcome": "attached"}';
end
$$;

-- Returns the maximum total size of a book's documents: 500 MiB.
create or replace function ai.max_book_document_bytes() returns bigint
  language sql immutable security invoker set search_path = ''
as $$
  select 500 * 1024 * 1024::bigint
$$;

-- Logs an attached document in the workspace's activity log, or in the audit log for the platform's book. Not granted
-- to any role.
create or replace function ai.log_attached_document(invoice ai.invoice_book_entries, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  document jsonb := ai.invoice_document_summary((invoice).id) - 'attachedAt';
begin
  if (invoice).book_id = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.attach_document',
      'target', 'document of platform invoice ' || (invoice).id,
      'after', document || jsonb_build_object('provider', (invoice).provider, 'reference', (invoice).reference)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', change ->> 'actor', true);
  perform private.log_workspace_change(
    (invoice).book_id, 'provider_invoice.document_attached', (invoice).id,
    concat_ws(' ', (invoice).provider, (invoice).reference), document
  );
end
$$;

-- Returns an invoice's document with its content as base64: { outcome: read, fileName, content }, { outcome: not_found }
-- or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_invoice_document(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'read', 'fileName', d.file_name, 'content', encode(d.content, 'base64'))
    from ai.invoice_documents d
    where d.invoice_id = read_invoice_document.invoice_id and d.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns an invoice's document without its content, or null: { fileName, sizeBytes, sha256, attachedAt }.
create or replace function ai.invoice_document_summary(of_invoice_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'fileName', d.file_name,
    'sizeBytes', d.size_bytes,
    'sha256', encode(d.sha256, 'hex'),
    'attachedAt', ai.utc_text_microseconds(d.attached_at)
  )
  from ai.invoice_documents d
  where d.invoice_id = of_invoice_id
$$;

-- Returns who attached an invoice's document. An admin is named by email address. Returns null without a document, and
-- once the person is deleted.
create or replace function ai.document_attacher(invoice ai.invoice_book_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then private.last_admin_action('document of platform invoice ' || (invoice).id) ->> 'actorEmail'
    else (
      select p.display_name
      from ai.invoice_documents d
      join public.profiles p on p.id = d.attached_by
      where d.invoice_id = (invoice).id
    )
  end
$$;

-- Returns who recorded an invoice (ai.invoice_recorder), and the reason given for the console's audit log: { recordedBy,
-- reason }. recordedBy is null once the person or app is deleted. Invoices of a workspace's book need no reason.
create or replace function ai.invoice_entry(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'recordedBy', ai.invoice_recorder(invoice) ->> 'name',
    'reason', case when (invoice).book_id = ai.platform_book() then (
      select l.reason
      from private.admin_audit_log l
      where l.target = 'platform invoice ' || (invoice).id and l.action = 'books.record_invoice'
      order by l.created_at, l.id
      limit 1
    ) end
  )
$$;

-- Returns what one of an invoice's amounts adds to totals, like ai.invoice_amount.
create or replace function ai.invoice_part(invoice ai.invoice_book_entries, amount numeric, within daterange) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  -- Computes a range's share as the difference of two rounded running totals, so that the shares of adjacent ranges add
  -- up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then amount
      when isempty(d.days * within) then 0
      else
        round(amount * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round(amount * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

-- Returns the calls of a day's ended runs that OpenRouter may have charged. generation_id is null if the gateway received
-- none. metered_usd is the run's cost in the books of OpenRouter: 0 if the run is billed by another provider. Not granted
-- to any role.
create or replace function ai.generation_calls(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, generation_id text
)
  language sql stable security invoker set search_path = ''
as $$
  with ended as not materialized (
    select r.id, r.created_at, r.workspace_id, r.model_id, r.cost_usd, r.swept, r.attempts, p.id as provider_id,
      ai.billing_provider(r.billing_name, p.id) = 'openrouter' as is_billed
    from ai.runs r
    cross join lateral (select ai.run_provider(r.routes, r.route) as id) p
    where r.created_at >= of_day::timestamp at time zone 'UTC'
      and r.created_at < (of_day + 1)::timestamp at time zone 'UTC'
      and r.status <> 'running'
  ), providers as (
    select e.provider_id as id from ended e where e.is_billed
    union
    -- The provider of failed attempts, if no run of the day ended with it.
    select 'openrouter' where not exists (select from ended e where e.provider_id = 'openrouter')
  )
  select distinct on (e.created_at, e.id, coalesce(i.generation_id, a.place::text))
    e.id, e.created_at, e.workspace_id, e.model_id, case when e.is_billed then e.cost_usd else 0 end, i.generation_id
  from ended e
  left join lateral rows from (jsonb_to_recordset(e.attempts) as (
    provider text, failure text, upstream_request_id text, may_have_charged boolean
  )) with ordinality as a (provider, failure, upstream_request_id, may_have_charged, place)
    on a.provider in (select p.id from providers p) and a.failure is distinct from 'skipped'
  cross join lateral (
    select case when a.upstream_request_id ~ '^gen-.' then a.upstream_request_id end as generation_id
  ) i
  where i.generation_id is not null
    or a.provider is not null and (
      a.failure is null or a.may_have_charged or a.failure in ('cancelled', 'timeout', 'connection_lost')
    )
    or a.provider is null and e.is_billed and e.cost_usd > 0
    -- Runs that the sweep closed state no billing name.
    or a.provider is null and e.swept and e.provider_id in (select p.id from providers p)
$$;

-- Returns a day's runs at OpenRouter with what OpenRouter answered about their calls. A run with several calls is
-- compared as a whole, because its cost is. state is pending (not all calls have an answer), unnamed (a call has no
-- generation id), unknown (OpenRouter doesn't know a call), differs or equal. Not granted to any role.
create or replace function ai.compare_generations(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, charged_usd numeric,
  own_key_usd numeric, calls bigint, unnamed bigint, pending bigint, unknown bigint, state text
)
  language sql stable security invoker set search_path = ''
as $$
  select s.*, case
    when s.pending > 0 then 'pending'
    when s.unnamed > 0 then 'unnamed'
    -- Runs are stored with 12 decimals.
    when abs(s.charged_usd - s.metered_usd) < 0.000000000001 then 'equal'
    when s.unknown > 0 then 'unknown'
    else 'differs'
  end
  from (
    select c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd,
      coalesce(sum(g.cost_usd), 0) as charged_usd, sum(g.own_key_usd) as own_key_usd, count(*) as calls,
      count(*) filter (where c.generation_id is null) as unnamed,
      count(*) filter (where c.generation_id is not null and g.run_id is null) as pending,
      count(*) filter (where g.run_id is not null and g.cost_usd is null) as unknown
    from ai.generation_calls(of_day) c
    left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
    group by c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd
  ) s
$$;

-- Stores OpenRouter's answers about calls: [{ runId, generationId, costUsd (null: not known), ownKeyUsd }]. A cost stays
-- if OpenRouter no longer knows the call. The change is { reason, requestId, ip }, which the audit log records. Returns {
-- outcome: stored } or ai.statement_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.store_generation_costs(
  member_id uuid, workspace uuid, of_day date, answers jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  insert into ai.generation_costs as g (run_id, generation_id, cost_usd, own_key_usd, observed_at)
  select a."runId", a."generationId", a."costUsd", a."ownKeyUsd", clock_timestamp()
  from jsonb_to_recordset(answers) as a ("runId" uuid, "generationId" text, "costUsd" numeric, "ownKeyUsd" numeric)
  -- Concurrent calls lock the rows in the same order.
  order by a."runId", a."generationId"
  on conflict (run_id, generation_id) do update set
    cost_usd = coalesce(excluded.cost_usd, g.cost_usd),
    own_key_usd = case when excluded.cost_usd is null then g.own_key_usd else excluded.own_key_usd end,
    observed_at = excluded.observed_at;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'costs.request_generations',
      'target', 'costs openrouter ' || of_day,
      'after', jsonb_build_object('calls', jsonb_array_length(answers))
    )
  );
  return '{"outcome": "stored"}';
end
$$;

-- Compares a day's runs with OpenRouter's answers: { outcome: compared, asOf, states: [{ state, runs, calls, named,
-- pending, unknown, meteredUsd, chargedUsd, ownKeyUsd }], runs: [{ runId, createdAt, workspaceId, workspaceName (null
-- once deleted), modelId, state, calls, meteredUsd, chargedUsd, differenceUsd, ownKeyUsd }], total } or
-- ai.statement_refusal. runs is a part of the total runs that are neither equal nor pending, the largest difference first
-- within a state. ownKeyUsd is null without calls that another provider charged.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_generation_costs(
  member_id uuid, workspace uuid, of_day date, max_runs integer, skipped_runs integer default 0
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  return (
    with compared as materialized (
      select * from ai.compare_generations(of_day)
    ), page as (
      select c.*, array_position(array['differs', 'unknown', 'unnamed'], c.state) as rank
      from compared c
      where c.state in ('differs', 'unknown', 'unnamed')
      order by rank, abs(c.charged_usd - c.metered_usd) desc, c.run_id
      limit max_runs offset skipped_runs
    )
    select jsonb_build_object(
      'outcome', 'compared',
      'asOf', now(),
      'total', (select count(*) from compared c where c.state in ('differs', 'unknown', 'unnamed')),
      'states', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'state', s.state,
          'runs', s.runs,
          'calls', s.calls,
          'named', s.calls - s.unnamed,
          'pending', s.pending,
          'unknown', s.unknown,
          'meteredUsd', trim_scale(s.metered_usd)::text,
          'chargedUsd', trim_scale(s.charged_usd)::text,
          'ownKeyUsd', trim_scale(s.own_key_usd)::text
        ) order by array_position(array['differs', 'unknown', 'unnamed', 'pending', 'equal'], s.state)), '[]')
        from (
          select c.state, count(*) as runs, sum(c.calls) as calls, sum(c.unnamed) as unnamed, sum(c.pending) as pending,
            sum(c.unknown) as unknown, sum(c.metered_usd) as metered_usd, sum(c.charged_usd) as charged_usd,
            sum(c.own_key_usd) as own_key_usd
          from compared c
          group by c.state
        ) s
      ),
      'runs', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', p.run_id,
          'createdAt', p.created_at,
          'workspaceId', p.workspace_id,
          'workspaceName', w.name,
          'modelId', p.model_id,
          'state', p.state,
          'calls', p.calls,
          'meteredUsd', trim_scale(p.metered_usd)::text,
          'chargedUsd', trim_scale(p.charged_usd)::text,
          'differenceUsd', trim_scale(p.charged_usd - p.metered_usd)::text,
          'ownKeyUsd', trim_scale(p.own_key_usd)::text
        ) order by p.rank, abs(p.charged_usd - p.metered_usd) desc, p.run_id), '[]')
        from page p
        left join public.workspaces w on w.id = p.workspace_id
      )
    )
  );
end
$$;

-- Replaces the hours of a provider's UTC day. hours are [{ hour, keyId, model, requests, inputTokens, cachedInputTokens,
-- cacheWriteTokens, outputTokens }], of which those of the same hour, key and model are added up. The change is { actor,
-- reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.store_usage_hours(of_provider text, of_day date, hours jsonb, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  -- Locks the day, so that concurrent answers replace each other.
  insert into ai.usage_days (provider, day) values (of_provider, of_day)
  on conflict (provider, day) do update set observed_at = now();
  delete from ai.usage_hours h where h.provider = of_provider and h.day = of_day;
  insert into ai.usage_hours (
    provider, day, hour, key_id, model, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
  )
  select of_provider, of_day, h."hour", h."keyId", h."model", sum(h."requests"), sum(h."inputTokens"),
    sum(h."cachedInputTokens"), sum(h."cacheWriteTokens"), sum(h."outputTokens")
  from jsonb_to_recordset(hours) as h (
    "hour" timestamptz, "keyId" text, "model" text, "requests" bigint, "inputTokens" bigint, "cachedInputTokens" bigint,
    "cacheWriteTokens" bigint, "outputTokens" bigint
  )
  group by h."hour", h."keyId", h."model";
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.fetch_usage_hours', 'target', format('usage %s %s', of_provider, of_day)
  ));
  return '{}';
end
$$;

-- Marks a provider's API key as used only by this gateway, or removes the mark, and records it in the audit log. The
-- change is { actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.mark_gateway_key(of_provider text, of_key text, marked boolean, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  if marked then
    insert into ai.gateway_provider_keys (provider, key_id) values (of_provider, of_key) on conflict do nothing;
  else
    delete from ai.gateway_provider_keys k where k.provider = of_provider and k.key_id = of_key;
  end if;
  if found then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', case when marked then 'costs.mark_gateway_key' else 'costs.unmark_gateway_key' end,
      'target', format('provider key %s %s', of_provider, of_key)
    ));
  end if;
  return '{}';
end
$$;

-- Returns the calls that the gateway made to a provider (a result of ai.billing_provider) in runs that began in a range,
-- one row for each run and provider model. requests are those whose tokens are counted. note is closed, estimated,
-- uncounted if a failed request may have been charged without counts, or null. Not granted to any role.
create or replace function ai.provider_calls(of_provider text, range_start timestamptz, range_end timestamptz)
  returns table (
    run_id uuid, created_at timestamptz, workspace_id uuid, model text, cost_usd numeric, note text, requests bigint,
    input_tokens bigint, cached_input_tokens bigint, cache_write_tokens bigint, output_tokens bigint
  )
  language sql stable security invoker set search_path = ''
as $$
  with found_runs as materialized (
    select r.id, r.created_at, r.workspace_id, r.cost_usd, r.billing_name, r.swept, r.usage_source, r.input_tokens,
      r.cached_input_tokens, r.cache_write_tokens + r.cache_write_1h_tokens as cache_write_tokens, r.output_tokens,
      ai.run_provider(r.routes, r.route) as provider_id,
      coalesce(
        case when (r.routes -> (r.route - 1) ->> 'position')::smallint = r.route then r.routes -> (r.route - 1) ->> 'model' end,
        jsonb_path_query_first(
          r.routes, '$[*] ? (@.position == $position).model', jsonb_build_object('position', coalesce(r.route, 1))
        ) #>> '{}',
        r.model_id
      ) as model,
      r.input_tokens + r.output_tokens > 0
        or coalesce(r.attempts @? '$[*] ? (@.status == 200 && !exists(@.failure))', false) as is_counted,
      coalesce(r.attempts @? '$[*].charged', false) as is_split,
      -- Most runs need no attempts, which are large.
      case when r.attempts @? '$[*] ? (exists(@.charged) || exists(@.may_have_charged))' then r.attempts end as attempts
    from ai.runs r
    where r.created_at >= range_start and r.created_at < range_end
  ), provider_ids as (
    -- Runs that the sweep closed, and requests before the last one, state no billing name.
    select of_provider as id
    union
    select r.provider_id
    from found_runs r
    where r.billing_name is not null and ai.provider_name(r.billing_name) = of_provider
  ), counted as (
    select r.id, r.provider_id, r.model, 1 as requests, r.input_tokens, r.cached_input_tokens, r.cache_write_tokens,
      r.output_tokens, false as is_uncounted
    from found_runs r
    where not r.is_split and r.is_counted
    union all
    select r.id, a.provider, a.model, case when a.charged is null then 0 else 1 end,
      coalesce((a.charged ->> 'input_tokens')::bigint, 0), coalesce((a.charged ->> 'cached_input_tokens')::bigint, 0),
      coalesce((a.charged ->> 'cache_write_tokens')::bigint, 0) + coalesce((a.charged ->> 'cache_write_1h_tokens')::bigint, 0),
      coalesce((a.charged ->> 'output_tokens')::bigint, 0), a.charged is null
    from found_runs r
    cross join lateral rows from (
      jsonb_to_recordset(r.attempts) as (provider text, model text, charged jsonb, may_have_charged boolean)
    ) with ordinality as a (provider, model, charged, may_have_charged, place)
    where a.charged is not null
      or a.may_have_charged
        and (a.place < jsonb_array_length(r.attempts) or not r.is_split and r.input_tokens + r.output_tokens = 0)
  )
  select r.id, r.created_at, r.workspace_id, c.model, r.cost_usd,
    case
      when r.swept then 'closed'
      when ai.is_estimated(r.usage_source, r.swept) then 'estimated'
      when bool_or(c.is_uncounted) then 'uncounted'
    end,
    sum(c.requests)::bigint, sum(c.input_tokens)::bigint, sum(c.cached_input_tokens)::bigint,
    sum(c.cache_write_tokens)::bigint, sum(c.output_tokens)::bigint
  from found_runs r
  join counted c on c.id = r.id
  where case
    when r.billing_name is not null and c.provider_id = r.provider_id then ai.provider_name(r.billing_name) = of_provider
    else c.provider_id in (select p.id from provider_ids p)
  end
  group by r.id, r.created_at, r.workspace_id, c.model, r.cost_usd, r.swept, r.usage_source
$$;

-- Returns the name of ours under which a provider's model was called: the same name, otherwise the longest one that the
-- provider's name continues with a date, with or without -latest. Returns null if there is none. Not granted to any role.
create or replace function ai.match_model(name text, names text[]) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select n.name
  from (select o as name, regexp_replace(o, '-latest$', '') as base from unnest(names) o) n
  where n.name = match_model.name
    or starts_with(match_model.name, n.base || '-')
      and substr(match_model.name, length(n.base) + 2) ~ '^(\d{4}|\d{8}|\d{4}-\d{2}-\d{2})$'
  order by n.name = match_model.name desc, length(n.base) desc, length(n.name)
  limit 1
$$;

-- Compares a provider's UTC day by hour and model: { observedAt, keys: [{ keyId, isMarked, isCounted,
-- inputTokens, outputTokens }], lines: [{ hour, model, isKnown, differs, calls, stated, metered, keys }], calls: { hour, model, total,
-- records } }, or { refused: forbidden }. observedAt is null if the provider was not asked. If keys are marked, stated is
-- the sum of marked keys only. isKnown says whether a call of the day used the model. calls lists at most page_size calls
-- of a line: the given one, otherwise the differing line with calls and the largest difference.
-- Definer: the service role cannot check who may use a book.
create or replace function private.compare_usage_hours(
  actor uuid, of_provider text, of_day date, of_hour timestamptz default null, of_model text default null,
  skip integer default 0, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  answer jsonb;
begin
  if ai.book_refusal(actor, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  with calls as materialized (
    select date_trunc('hour', c.created_at) as hour, c.*
    from ai.provider_calls(of_provider, of_day::timestamptz, (of_day + 1)::timestamptz) c
  ), known as materialized (
    select array(select distinct c.model from calls c) as names
  ), models as materialized (
    select h.model, ai.match_model(h.model, k.names) as own_model
    from (select distinct h.model from ai.usage_hours h where h.provider = of_provider and h.day = of_day) h
    cross join known k
  ), aliases as materialized (
    -- Our names whose calls the provider counts under a dated name that belongs to another name of ours.
    select a.name, max(m.own_model collate "C") as model
    from known k
    cross join unnest(k.names) as a (name)
    join models m on m.own_model is not null and ai.match_model(m.model, array[a.name]) is not null
    where not exists (select from models o where o.own_model = a.name)
    group by a.name
  ), matched as materialized (
    select h.*, o.own_model, m.key_id is not null as is_marked,
      m.key_id is not null or not exists (select from ai.gateway_provider_keys g where g.provider = of_provider) as is_counted
    from ai.usage_hours h
    join models o on o.model = h.model
    left join ai.gateway_provider_keys m on m.provider = h.provider and m.key_id = h.key_id
    where h.provider = of_provider and h.day = of_day
  ), stated as (
    select s.hour, coalesce(s.own_model, s.model) as model, bool_or(s.is_counted) as is_counted,
      ai.usage_counts(
        sum(s.requests) filter (where s.is_counted), sum(s.input_tokens) filter (where s.is_counted),
        sum(s.cached_input_tokens) filter (where s.is_counted), sum(s.cache_write_tokens) filter (where s.is_counted),
        sum(s.output_tokens) filter (where s.is_counted)
      ) as counts,
      jsonb_agg(jsonb_build_object(
        'keyId', s.key_id, 'model', s.model, 'isCounted', s.is_counted, 'requests', s.requests,
        'inputTokens', s.input_tokens, 'outputTokens', s.output_tokens
      ) order by s.input_tokens + s.output_tokens desc, s.key_id collate "C", s.model collate "C") as keys
    from matched s
    group by 1, 2
  ), metered as (
    select c.hour, coalesce(a.model, c.model) as model, count(*) as calls, ai.usage_counts(
      sum(c.requests), sum(c.input_tokens), sum(c.cached_input_tokens), sum(c.cache_write_tokens), sum(c.output_tokens)
    ) as counts
    from calls c
    left join aliases a on a.name = c.model
    group by 1, 2
  ), lines as materialized (
    select hour, model, coalesce(m.calls, 0) as calls, model = any (k.names) as is_known, coalesce(s.keys, '[]') as keys,
      coalesce(s.counts, e.counts || '{"requests": null}') as stated, coalesce(m.counts, e.counts) as metered
    from stated s
    full join metered m using (hour, model)
    cross join known k
    cross join (select ai.usage_counts(0, 0, 0, 0, 0) as counts) e
  ), compared as materialized (
    -- Requests are compared only if the provider states them.
    select l.*, l.stated is distinct from case
        when l.stated -> 'requests' = 'null' then l.metered || '{"requests": null}' else l.metered
      end as differs,
      abs((l.stated ->> 'inputTokens')::bigint - (l.metered ->> 'inputTokens')::bigint)
        + abs((l.stated ->> 'outputTokens')::bigint - (l.metered ->> 'outputTokens')::bigint) as difference
    from lines l
  ), chosen as materialized (
    select c.hour, c.model, c.calls
    from compared c
    where case when of_hour is null then c.differs and c.calls > 0 else c.hour = of_hour and c.model = of_model end
    order by c.difference desc, c.hour, c.model collate "C"
    limit 1
  )
  select jsonb_build_object(
    'observedAt', (select d.observed_at from ai.usage_days d where d.provider = of_provider and d.day = of_day),
    'keys', (
      -- Marked keys are listed first and even if they were not used on the day, so that the mark can be removed.
      select coalesce(jsonb_agg(k.key order by k.is_marked desc, k.tokens desc, k.key_id collate "C"), '[]')
      from (
        select u.key_id, bool_or(u.is_marked) as is_marked,
          coalesce(sum(m.input_tokens + m.output_tokens), 0) as tokens, jsonb_build_object(
          'keyId', u.key_id, 'isMarked', bool_or(u.is_marked), 'isCounted', coalesce(bool_or(m.is_counted), true),
          'inputTokens', coalesce(sum(m.input_tokens), 0), 'outputTokens', coalesce(sum(m.output_tokens), 0)
        ) as key
        from (
          select x.key_id, x.is_marked from matched x
          union
          select g.key_id, true from ai.gateway_provider_keys g where g.provider = of_provider
        ) u
        left join matched m on m.key_id is not distinct from u.key_id
        group by u.key_id
      ) k
    ),
    'lines', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'hour', ai.utc_text_microseconds(c.hour), 'model', c.model, 'isKnown', c.is_known, 'differs', c.differs,
        'calls', c.calls, 'stated', c.stated, 'metered', c.metered, 'keys', c.keys
      ) order by c.hour, c.model collate "C"), '[]')
      from compared c
    ),
    'calls', (
      select jsonb_build_object('hour', ai.utc_text_microseconds(h.hour), 'model', h.model, 'total', h.calls, 'records', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', c.run_id, 'createdAt', ai.utc_text_microseconds(c.created_at), 'workspaceId', c.workspace_id,
          'workspaceName', w.name, 'requests', c.requests, 'inputTokens', c.input_tokens,
          'cachedInputTokens', c.cached_input_tokens, 'outputTokens', c.output_tokens,
          'costUsd', trim_scale(c.cost_usd)::text, 'note', c.note
        ) order by c.created_at, c.run_id), '[]')
        from (
          select o.* from calls o
          left join aliases a on a.name = o.model
          where o.hour = h.hour and coalesce(a.model, o.model) = h.model
          order by o.created_at, o.run_id
          limit page_size offset skip
        ) c
        left join public.workspaces w on w.id = c.workspace_id
      ))
      from chosen h
    )
  ) into answer;
  return answer;
end
$$;

-- Returns the counts of an hour as JSON. Missing token counts are 0. Not granted to any role.
create or replace function ai.usage_counts(
  requests numeric, input_tokens numeric, cached_input_tokens numeric, cache_write_tokens numeric, output_tokens numeric
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'requests', requests, 'inputTokens', coalesce(input_tokens, 0), 'cachedInputTokens', coalesce(cached_input_tokens, 0),
    'cacheWriteTokens', coalesce(cache_write_tokens, 0), 'outputTokens', coalesce(output_tokens, 0)
  )
$$;

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account.
-- With of_provider (a result of ai.billing_provider), returns only that provider's usage, also grouped by workspace and
-- day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.
-- Without of_provider, workspace_id is null, and day is null unless by_day is set. Not granted to any role.
create or replace function ai.platform_usage(
  first_day date, last_day date, of_provider text default null, by_day boolean default false
)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql stable security invoker set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    with parts as (
      -- Groups each part separately, so that Postgres can hash the rows of a small part instead of sorting them.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed or by_day then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day >= summed.first_day and u.day < summed.end_day
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then c.workspace_id end, case when detailed or by_day then c.day end, c.provider_id, c.billing_name,
        c.billing_account, sum(c.requests), sum(c.failed), sum(c.input_tokens), sum(c.output_tokens), sum(c.cost_usd),
        sum(c.estimated_runs), sum(c.closed_runs)
      from ai.usage_changes c
      where c.run_created_at >= summed.first_moment and c.run_created_at < summed.end_moment
        and (not detailed or c.closed_runs <> 0 or ai.billing_provider(c.billing_name, c.provider_id) = of_provider)
      group by 1, 2, c.provider_id, c.billing_name, c.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed or by_day then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from (
        select * from ai.runs b where b.created_at >= range_start and b.created_at < summed.first_moment
        union all
        select * from ai.runs a where a.created_at >= summed.end_moment and a.created_at < range_end
      ) as r
      cross join lateral ai.run_usage(r) u
      where not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;

-- Returns a page of a book's invoices, latest issued first, and the total of the invoices that count. If the filter
-- (ai.invoice_matches) has a month, each invoice also has its share of that month (ai.invoice_share), and the total is
-- the sum of these shares. Returns { outcome: listed, … } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}',
  token_hash bytea default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace, token_hash), jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.invoice_book_entries i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.book_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || ai.invoice_entry(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  ))
$$;

-- Returns an invoice as JSON. In the platform's book, appId is ai.platform_book() and appName is null.
create or replace function ai.invoice_summary(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'currency', (invoice).currency,
    'exchangeRate', trim_scale((invoice).exchange_rate)::text,
    'netAmount', trim_scale((invoice).net_amount)::text,
    'taxAmount', trim_scale((invoice).tax_amount)::text,
    'totalAmount', trim_scale((invoice).total_amount)::text,
    'document', ai.invoice_document_summary((invoice).id),
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

-- Returns a page of a book's months and providers in the window of ai.reconciled_window, the latest month first. Each
-- row has the provider's accounts and two differences: imported less metered, and invoiced less imported. If the
-- workspace hides provider cost, every meteredUsd is null, and only providers with imports or invoices are listed. An
-- account's meteredUsd is also null if a run of the same month and provider has a cost but names no account; without
-- runs it is 0. clashes is the result of ai.book_clashes. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50, token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, dates.window_from, dates.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- A single run without an account makes the metered cost of the month's accounts unknown, unless the run cost
        -- nothing. Failed calls and calls closed by the sweep often name no account.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider), true
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(dates.window_from),
      'to', ai.utc_text_microseconds(dates.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(workspace, dates.window_from, dates.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

-- Returns a page of a book's providers by name, or only one provider, each with its metered and imported cost in a
-- range, and the totals of all providers. importedRecords tells an imported cost of 0 from a missing one. Leaves out
-- providers without metered or imported cost. meteredUsd is null if the workspace hides provider cost. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.compare_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  of_provider text default null, after text default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.records) as records
      from ai.reconciled_costs(workspace, dates.window_from, dates.window_to) p
      where of_provider is null or p.provider = ai.provider_name(of_provider)
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'importedRecords', coalesce(sum(p.records), 0),
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'importedRecords', p.records
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns the closed months of a book (YYYY-MM) that have at least one of the days.
create or replace function ai.closed_months(book uuid, first_day date, last_day date) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and s.month <= last_day
      and s.month >= date_trunc('month', first_day::timestamp)::date
    order by s.month
  )
$$;

-- Returns the closed months in which a cost file would add, correct or clear a day. Not granted to any role.
create or replace function ai.months_closed_to_file(book uuid, days ai.cost_file_day[]) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and exists (
        select from unnest(days) d
        where d.change not in ('unchanged', 'remaining') and date_trunc('month', d.day::timestamp)::date = s.month
      )
    order by s.month
  )
$$;

-- Keeps a book's months from being closed until the transaction ends, so that a person's change and a close exclude
-- each other. The caller checks afterwards, in another statement, whether a month is closed. Not granted to any role.
create or replace function ai.hold_open_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock_shared(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Waits for changes of a book by people and for other closes of its months, and excludes them until the transaction
-- ends. Not granted to any role.
create or replace function ai.lock_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Rejects every change of a statement except its reopening, which happens once.
create or replace function ai.reject_statement_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    if old.reopened_at is null
      and new.reopened_at is not null
      and to_jsonb(new) - '{reopened_by,reopened_at,reopen_reason}'::text[]
        = to_jsonb(old) - '{reopened_by,reopened_at,reopen_reason}'::text[] then
      return new;
    end if;
  end if;
  raise exception 'a statement is immutable' using errcode = 'restrict_violation';
end
$$;

-- Returns the records that count in a month of the platform's book: the metered sum of each UTC day, provider and
-- account, each imported cost, and each invoice with its share of the month. The amount of a credit note is negative.
-- record is the external run id of a cost, or the reference of an invoice. Not granted to any role.
create or replace function ai.month_records(of_month date) returns table (
  kind text, first_day date, last_day date, provider text, account_id text, record text, service text, runs numeric,
  amount_usd numeric
)
  language sql stable security invoker set search_path = ''
as $$
  select 'metered', u.day, u.day, m.provider, u.billing_account, null::text, null::text, sum(u.requests), sum(u.cost_usd)
  from ai.platform_usage(of_month, (of_month::timestamp + interval '1 month - 1 day')::date, by_day => true) u
  cross join lateral (select ai.billing_provider(u.billing_name, u.provider_id) as provider) m
  group by u.day, m.provider, u.billing_account
  having sum(u.requests) > 0
  union all
  select 'cost', o.day, o.day, (c.cost).provider, (c.cost).account_id, (c.cost).external_run_id, (c.cost).service, null,
    (c.cost).amount_usd
  from ai.provider_costs_in_totals(
    ai.platform_book(), of_month::timestamp at time zone 'UTC', (of_month::timestamp + interval '1 month') at time zone 'UTC'
  ) c
  cross join lateral (select ((c.cost).occurred_at at time zone 'UTC')::date as day) o
  where c.counted
  union all
  select i.kind, lower(d.days), upper(d.days) - 1, i.provider, i.account_id, i.reference, null, null,
    ai.invoice_amount(i, d.days)
  from ai.invoice_book_entries i
  cross join lateral (
    select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * ai.month_days(to_char(of_month, 'YYYY-MM')) as days
  ) d
  where i.book_id = ai.platform_book() and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

-- Returns a month's records as text, their SHA-256, and the figures by provider and account, all from one snapshot. In
-- records, each record is a line of nine fields separated by tabs: kind, first day, last day, provider, account, record,
-- service, runs and amount in USD. A missing value is empty, each line ends with a line feed, and the lines are sorted by
-- their bytes in UTF-8. Not granted to any role.
create or replace function ai.summarize_month(of_month date, out records text, out sha256 bytea, out figures jsonb)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  with counted as materialized (
    select * from ai.month_records(of_month)
  ), accounts as (
    select
      c.provider, c.account_id,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'metered'), 0) as metered,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'cost'), 0) as imported,
      coalesce(sum(c.amount_usd) filter (where c.kind in ('invoice', 'credit_note')), 0) as invoiced,
      coalesce(sum(c.runs), 0) as runs,
      count(*) filter (where c.kind = 'cost') as records,
      count(*) filter (where c.kind in ('invoice', 'credit_note')) as invoices
    from counted c
    group by c.provider, c.account_id
  )
  select
    (
      select coalesce(string_agg(l.line || e'\n', '' order by l.line collate "C"), '')
      from (
        select array_to_string(
          array[
            c.kind, c.first_day::text, c.last_day::text, c.provider, c.account_id, c.record, c.service, c.runs::text,
            trim_scale(c.amount_usd)::text
          ],
          e'\t', ''
        ) as line
        from counted c
      ) l
    ),
    (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'provider', a.provider,
          'accountId', a.account_id,
          'meteredUsd', trim_scale(a.metered)::text,
          'importedUsd', trim_scale(a.imported)::text,
          'invoicedUsd', trim_scale(a.invoiced)::text,
          'runs', a.runs,
          'importedRecords', a.records,
          'invoices', a.invoices
        )
        order by a.provider collate "C", a.account_id collate "C" nulls first
      ), '[]')
      from accounts a
    )
  into records, figures;
  sha256 := sha256(convert_to(records, 'UTF8'));
end
$$;

-- Returns by how much a month's figures differ from the figures of its statement, by provider and account, leaving out
-- accounts without a difference: [{ provider, accountId, meteredUsd, importedUsd, invoicedUsd, runs, importedRecords,
-- invoices }]. Not granted to any role.
create or replace function ai.figures_difference(figures jsonb, closed_figures jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'provider', d.provider, 'accountId', d.account_id, 'meteredUsd', trim_scale(d.metered)::text,
      'importedUsd', trim_scale(d.imported)::text, 'invoicedUsd', trim_scale(d.invoiced)::text, 'runs', d.runs,
      'importedRecords', d.records, 'invoices', d.invoices
    )
    order by d.provider collate "C", d.account_id collate "C" nulls first
  ), '[]')
  from (
    select s.figure ->> 'provider' as provider, s.figure ->> 'accountId' as account_id,
      sum(s.sign * (s.figure ->> 'meteredUsd')::numeric) as metered,
      sum(s.sign * (s.figure ->> 'importedUsd')::numeric) as imported,
      sum(s.sign * (s.figure ->> 'invoicedUsd')::numeric) as invoiced, sum(s.sign * (s.figure ->> 'runs')::numeric) as runs,
      sum(s.sign * (s.figure ->> 'importedRecords')::numeric) as records,
      sum(s.sign * (s.figure ->> 'invoices')::numeric) as invoices
    from (
      select 1 as sign, f as figure from jsonb_array_elements(figures) f
      union all
      select -1, f from jsonb_array_elements(closed_figures) f
    ) s
    group by 1, 2
  ) d
  where (d.metered, d.imported, d.invoiced, d.runs, d.records, d.invoices) <> (0, 0, 0, 0, 0, 0)
$$;

-- Returns why a person may not close or read the months of a book, or null if they may. Only the platform's book has
-- statements. Not granted to any role.
create or replace function ai.statement_refusal(member_id uuid, book uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    case when book <> ai.platform_book() then '{"outcome": "not_allowed"}'::jsonb end, ai.book_refusal(member_id, book)
  )
$$;

-- Returns what closing a month (YYYY-MM) needs: { outcome: listed, state, figures, earlier }, { outcome: not_ended },
-- { outcome: already_closed, id } or ai.book_refusal. state identifies the records. earlier has the exceptions of the
-- month's last statement, which was reopened.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_close_checklist(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid := (
    select s.id
    from ai.book_statements s
    where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null
  );
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  summary := ai.summarize_month(lower(days));
  return jsonb_build_object(
    'outcome', 'listed',
    'state', encode(summary.sha256, 'hex'),
    'figures', summary.figures,
    'earlier', coalesce((
      select s.exceptions
      from ai.book_statements s
      where s.book_id = workspace and s.month = lower(days)
      order by s.version desc
      limit 1
    ), '[]')
  );
end
$$;

-- Closes a month (YYYY-MM). exceptions has what is open in the figures of state, each with a reason: [{ provider, kind,
-- meteredUsd, importedUsd, invoicedUsd, amountUsd, reason }]. The server decides what is open, as its pages do
-- (remix-app/studio/costs/reconciliation.ts). Returns { outcome: closed, id }, { outcome: changed } if the records are
-- not those of state, { outcome: reasons_missing }, { outcome: not_ended }, { outcome: already_closed, id } or
-- ai.book_refusal. The change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.close_month(
  member_id uuid, workspace uuid, of_month text, state text, exceptions jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid;
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  perform ai.lock_months(workspace);
  select s.id into closed
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null;
  if closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  end if;
  summary := ai.summarize_month(lower(days));
  if encode(summary.sha256, 'hex') is distinct from state then
    return '{"outcome": "changed"}';
  end if;
  if exists (
    select from jsonb_array_elements(exceptions) e
    where char_length(coalesce(e ->> 'reason', '')) not between 1 and 500
  ) then
    return '{"outcome": "reasons_missing"}';
  end if;
  insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
  select workspace, lower(days), coalesce(max(s.version), 0) + 1, member_id, summary.figures, close_month.exceptions,
    summary.records, summary.sha256
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days)
  returning id into closed;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.close_month',
      'target', 'platform month ' || of_month,
      'after', jsonb_build_object('statement', closed, 'sha256', state, 'exceptions', exceptions)
    )
  );
  return jsonb_build_object('outcome', 'closed', 'id', closed);
end
$$;

-- Reopens the month of a statement. Returns { outcome: reopened, month }, { outcome: not_closed } if it was reopened
-- before, { outcome: not_found } or ai.book_refusal. The change is { reason, requestId, ip }.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reopen_month(member_id uuid, workspace uuid, statement_id uuid, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  reopened ai.book_statements;
begin
  if refusal is not null then
    return refusal;
  end if;
  update ai.book_statements s
  set reopened_by = member_id, reopened_at = now(), reopen_reason = change ->> 'reason'
  where s.id = statement_id and s.book_id = workspace and s.reopened_at is null
  returning * into reopened;
  if reopened.id is null then
    return jsonb_build_object('outcome', case
      when exists (select from ai.book_statements s where s.id = statement_id and s.book_id = workspace) then 'not_closed'
      else 'not_found'
    end);
  end if;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.reopen_month',
      'target', 'platform month ' || to_char(reopened.month, 'YYYY-MM'),
      'before', jsonb_build_object('statement', reopened.id, 'sha256', encode(reopened.sha256, 'hex'))
    )
  );
  return jsonb_build_object('outcome', 'reopened', 'month', to_char(reopened.month, 'YYYY-MM'));
end
$$;

-- Returns a statement: { outcome: read, statement, figures, exceptions, records, after }, { outcome: not_found } or
-- ai.book_refusal. records are the lines of ai.summarize_month. after says what the records of a closed month are now:
-- { sha256, differences }, with ai.figures_difference. It is null once the month was reopened, and with with_records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_statement(
  member_id uuid, workspace uuid, statement_id uuid, with_records boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  stored ai.book_statements;
  summary record;
  after jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select * into stored from ai.book_statements s where s.id = statement_id and s.book_id = workspace;
  if stored.id is null then
    return '{"outcome": "not_found"}';
  end if;
  if not with_records and stored.reopened_at is null then
    summary := ai.summarize_month(stored.month);
    after := jsonb_build_object(
      'sha256', encode(summary.sha256, 'hex'),
      'differences', ai.figures_difference(summary.figures, stored.figures)
    );
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'statement', ai.statement_summary(stored),
    'figures', stored.figures,
    'exceptions', stored.exceptions,
    'records', case when with_records then stored.records end,
    'after', after
  );
end
$$;

-- Returns what lists show of a statement. Names are email addresses, and null once the account is deleted. Not granted
-- to any role.
create or replace function ai.statement_summary(stored ai.book_statements) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (stored).id,
    'month', to_char((stored).month, 'YYYY-MM'),
    'version', (stored).version,
    'closedBy', (select u.email from auth.users u where u.id = (stored).closed_by),
    'closedAt', ai.utc_text_microseconds((stored).closed_at),
    'sha256', encode((stored).sha256, 'hex'),
    'exceptions', jsonb_array_length((stored).exceptions),
    'reopened', case when (stored).reopened_at is not null then jsonb_build_object(
      'by', (select u.email from auth.users u where u.id = (stored).reopened_by),
      'at', ai.utc_text_microseconds((stored).reopened_at),
      'reason', (stored).reopen_reason
    ) end
  )
$$;

-- Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged
-- }, { outcome: changed }, { outcome: month_closed, months } or { outcome: invalid, param, message }. importId is null if
-- no day changes. The outcome is changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent
-- import wrote one of the same days, and month_closed if a person's file would change a day of a closed month. The change
-- is { actor, reason, requestId, ip, action }. The workspace's activity log records its actor, and the audit log records
-- it for the platform's book, by default as costs.import. An import by an operator or by the system has no actor. Not
-- granted to any role.
create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  -- Only people are refused. What is imported automatically appears after the close.
  by_person boolean := change ->> 'action' is distinct from 'costs.import_automatically';
  days ai.cost_file_day[];
  batch ai.cost_file_day[];
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  if by_person then
    perform ai.hold_open_months(book);
  end if;
  days := ai.compare_cost_file(book, app, document);
  if by_person and ai.months_closed_to_file(book, days) <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', ai.months_closed_to_file(book, days));
  end if;
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, service_categories, imported_by
  )
  values (
    new_id, book, app, ai.provider_name(document ->> 'provider'), document ->> 'format', document ->> 'fileName',
    decode(document ->> 'sha256', 'hex'), document ->> 'timeZone', coalesce(document -> 'rates', '{}'),
    coalesce(document -> 'serviceCategories', '{}'), (change ->> 'actor')::uuid
  );
  -- Writes days in the order in which ai.import_provider_costs writes records, so that concurrent imports can't
  -- deadlock. Consecutive days that are all new, or that all correct a record, are one batch.
  for batch in
    select array_agg(b.item order by b.place)
    from (
      select o.*, o.place - row_number() over (partition by o.is_new order by o.place) as batch_number
      from (
        select
          d as item, d.stored_id is null as is_new,
          row_number() over (order by d.account_id collate "C", d.external_run_id collate "C") as place
        from unnest(days) d
        where d.change not in ('unchanged', 'remaining')
      ) o
    ) b
    group by b.is_new, b.batch_number
    order by min(b.place)
  loop
    perform ai.write_cost_file_days(book, app, new_id, batch);
  end loop;
  perform ai.store_cost_services(book, app, new_id, document);
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', coalesce(change ->> 'action', 'costs.import'),
      'target', 'costs ' || ai.provider_name(document ->> 'provider'),
      'after', ai.cost_import_details(new_id) || answer
    ));
  else
    perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the same days, so this import stores nothing.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

-- Writes days of a cost file that are all new, or that all correct a stored record, in their order. Raises
-- serialization_failure if a concurrent import has changed or added the stored record of a day. Not granted to any role.
create or replace function ai.write_cost_file_days(book uuid, app uuid, new_import_id uuid, days ai.cost_file_day[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  recorded timestamptz := clock_timestamp();
  -- A day is observed after the record that it corrects, whose importer's clock may be up to 60 seconds ahead.
  tick interval := '1 microsecond';
  written integer;
begin
  if (days[1]).stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    select
      book, app, i.provider, d.account_id, d.external_run_id, 'account_day', d.amount_usd,
      d.day::timestamp at time zone 'UTC', greatest(recorded, d.observed_before + tick), recorded, i.id, d.original
    from unnest(days) with ordinality d
    cross join ai.cost_imports i
    where i.id = new_import_id
    order by d.ordinality
    on conflict do nothing;
  else
    -- An update locks its rows in any order.
    perform 1
    from unnest(days) with ordinality d
    join ai.external_provider_costs c on c.id = d.stored_id
    order by d.ordinality
    for update of c;
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = d.amount_usd,
      occurred_at = d.day::timestamp at time zone 'UTC', observed_at = greatest(recorded, d.observed_before + tick),
      recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id, original = d.original
    from unnest(days) d
    where c.id = d.stored_id and c.revision = d.stored_revision;
  end if;
  get diagnostics written = row_count;
  if written <> cardinality(days) then
    raise exception 'a concurrent import wrote one of % days', cardinality(days) using errcode = 'serialization_failure';
  end if;
end
$$;

-- Prices the calls, reserves their maximum costs and opens the runs of those that fit. Returns the results of
-- ai.begin_runs, in the order of the calls.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan, and avoid hash tables, which are slow to create for a few rows.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set enable_hashagg = off set enable_memoize = off set jit = off
as $$
declare
  claims ai.claim[] := ai.price_calls(calls);
  claim ai.claim;
  opens_accounts boolean := false;
  opens_envelopes boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
  -- Many refusals in one batch are a storm. Suggestions for all of them would hold the locks of admitted calls for long.
  max_suggestions constant integer := 4;
  suggestions integer := 0;
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    opens_envelopes := opens_envelopes
      or claim.refusal is null and claim.envelope_id is null and (claim.request).envelope is not null
        and (claim.request).is_free is not true;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_envelopes then
    perform ai.open_named_envelopes(claims);
  end if;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
  end if;
  if opens_accounts or opens_envelopes then
    claims := ai.price_calls(calls);
  end if;
  if opens_envelopes then
    claims := ai.refuse_unopened_envelopes(claims);
  end if;
  claims := ai.reserve(claims);
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is not null then
      claims[place].refusal := ai.explain_refusal(claims[place], with_suggestions => suggestions < max_suggestions);
      suggestions := suggestions + 1;
    end if;
    answers[place] := claims[place].refusal::text;
  end loop;
  if array_position(answers, null) is null then
    return answers;
  end if;
  with opened as (
    insert into ai.runs (
      id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits,
      budget_scopes, envelope_id, reserved_tokens, tokens_reserved_at, expected_usd, expected_scopes
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.envelope_id, c.tokens, case when c.tokens is not null then c.minute end,
      case when c.expected_scopes is not null then c.expected_usd end, c.expected_scopes
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s,'
      '"envelope":%s,"expected_output":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text, coalesce(c.envelope::text, 'null'),
      coalesce(case when c.expected_scopes is not null then c.expected_output end::text, 'null')
    )) order by c.ordinality)
  into answers
  from unnest(claims) with ordinality as c;
  if stores_keys then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    select
      (c.caller).workspace_id, ai.principal_id(c.caller), (c.request).idempotency_key,
      decode((c.request).fingerprint, 'hex'), now(), c.run_id
    from unnest(claims) as c
    where c.refusal is null and (c.request).idempotency_key is not null
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;
  return answers;
end
$$;

-- Returns what a budget reserves for a call: its maximum cost, or the cost of its expected output if the budget reserves
-- that and there is one. A further step of a run has none.
create or replace function ai.budget_need(claim ai.claim, budget ai.budgets) returns numeric
  language sql immutable security invoker
as $$
  select case
    when (budget).reserves_expected then coalesce((claim).expected_usd, (claim).cost_usd)
    else (claim).cost_usd
  end
$$;

-- Returns whether a call fits a budget as it counts now. A budget of 0 refuses free calls too. An ended envelope refuses
-- every call. Enforces a label's budget only if the key sets the label. A label that the caller sends never causes a
-- refusal by a budget.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or ((budget).max_calls is null or (claim).requests = 0 or (budget).calls + (claim).requests <= (budget).max_calls)
      and (
        (budget).limit_usd is null
        or (budget).limit_usd > 0 and (budget).reserved_usd + ai.budget_need(claim, budget) + (budget).spent_usd <= (budget).limit_usd
      )
      and ((budget).scope <> 'envelope' or now() < (budget).ends_at),
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a window, the
-- budget counts as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or case
      when (budget).period = 'concurrent' then (budget).max_calls > 0
      when (budget).scope = 'envelope' and now() >= (budget).ends_at then false
      else ((budget).max_calls is null or (budget).calls < (budget).max_calls)
        and (budget).limit_usd > 0
        and ai.budget_need(claim, budget) + case
          when (budget).scope <> 'envelope' and now() + interval '1 minute' >= (budget).ends_at then 0
          else (budget).spent_usd
        end <= (budget).limit_usd
    end,
    true
  )
$$;

-- Returns what a budget has left for a call: null if the budget can't refuse it for its maximum cost, less than nothing if
-- it refuses every call.
create or replace function ai.budget_room(claim ai.claim, budget ai.budgets) returns numeric
  language sql stable security invoker
as $$
  select case
    when (budget).scope = 'label' and ((claim).caller).entity_id is null then null
    -- The expected cost fits with any output limit.
    when (budget).reserves_expected and (claim).expected_usd is not null and ai.fits_budget(claim, budget) then null
    when (budget).limit_usd = 0 or (claim).requests > 0 and (budget).calls >= (budget).max_calls then -1
    when (budget).scope = 'envelope' and now() >= (budget).ends_at then -1
    else (budget).limit_usd - (budget).reserved_usd - (budget).spent_usd
  end
$$;

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves. regions has the
-- regions of a model's providers, and unknown for a provider without one. credits_per_usd is what one USD of provider
-- cost takes from the balance, null if the calls are free of credits.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  credits_per_usd numeric := case
    when ai.payer_id(caller) is not null then trim_scale(ai.credits_per_usd(caller.markup))
  end;
  usable_providers text[] := case
    when caller.allowed_regions is null then request.providers
    else ai.providers_in_regions(request.providers, request.regions, caller.allowed_regions)
  end;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(usable_providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select
      r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers,
      jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown')) as regions
    from routes r
    group by r.model_id
  ),
  paths as materialized (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end,
        'regions', s.regions
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case
        when shows_prices then jsonb_build_object('routes', s.routes, 'credits_per_usd', credits_per_usd)
        else jsonb '{}'
      end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found', ai.missing_model(request, caller));
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Returns the calls with the output that is expected of them, and what they cost at most with that output: the output
-- that 95% of the last runs of their kind had at most. Leaves out kinds with fewer than 20 runs, and calls that the
-- gateway can't stop at each of their routes, so that only what was delivered is charged.
create or replace function ai.expect_outputs(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
declare
  place bigint;
  tokens bigint;
  usd numeric;
begin
  for place, tokens, usd in
    select c.ordinality, u.tokens, least(c.cost_usd, x.usd)
    from unnest(claims) with ordinality as c
    cross join lateral (
      select percentile_disc(0.95) within group (order by o) as tokens
      from ai.output_histories h
      cross join lateral unnest(h.outputs) as o
      where h.workspace_id = (c.caller).workspace_id and h.model_id = c.model_id and h.feature = (c.request).feature
        and cardinality(h.outputs) >= 20 and h.updated_at > now() - interval '30 days'
    ) as u
    cross join lateral ai.input_tokens((c.request).input_bytes, (c.request).images, (c.request).audio_seconds) as i
    cross join lateral ai.maximum_cost(
      c.routes, least(i.text_tokens, c.context_window * (c.request).input_reads), i.image_tokens, i.audio_tokens, u.tokens,
      (c.request).hour_writes, (c.request).service_tier, (c.request).fee_requests, false
    ) as x
    where c.refusal is null and c.requests > 0 and u.tokens < c.output_limit * coalesce((c.request).choices, 1)
      and (c.request).streamed and (c.request).stoppable_providers is not null
      and not exists (
        select from jsonb_array_elements(c.routes) as r
        where not r ->> 'provider' = any ((c.request).stoppable_providers)
      )
  loop
    claims[place].expected_output := tokens;
    claims[place].expected_usd := usd;
  end loop;
  return claims;
end
$$;

-- Records the output of succeeded runs in the given workspaces, of which the last 100 of a kind count. Reasoning is not
-- in the stream, so that a stream can't be stopped at what it costs: a run with reasoning begins the history again. A
-- workspace has at most 1,000 kinds.
create or replace function ai.record_outputs(
  due ai.settlement[], outcomes ai.run_outcome[], workspaces uuid[]
) returns void
  language sql volatile security invoker
as $$
  insert into ai.output_histories as h (workspace_id, model_id, feature, outputs)
  select
    d.workspace_id, d.model_id, d.feature,
    case when bool_or(d.reasoning_tokens > 0) then '{}' else array_agg(d.output_tokens order by d.created_at) end
  from unnest(due, outcomes) as d
  where d.workspace_id = any (workspaces) and d.kind = 'usage' and d.status = 'succeeded' and d.usage_source = 'provider'
    and d.output_tokens > 0
    and (
      exists (
        select from ai.output_histories o
        where o.workspace_id = d.workspace_id and o.model_id = d.model_id and o.feature = d.feature
      )
      or (select count(*) from ai.output_histories o where o.workspace_id = d.workspace_id) < 1000
    )
  group by 1, 2, 3
  -- In the order of the key, so that two batches can't deadlock.
  order by 1, 2, 3
  on conflict (workspace_id, model_id, feature) do update
  set
    outputs = case
      when excluded.outputs = '{}' then '{}'
      else (h.outputs || excluded.outputs)[greatest(cardinality(h.outputs || excluded.outputs) - 99, 1):]
    end,
    updated_at = now()
$$;

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
-- With {"output": {"from", "to", "limit"}}, reserves further output of the current call instead, in tokens, in the
-- budgets that reserved only the expected output. from is the output that is reserved already.
-- Definer: gateway has no grant on any table. A run is identified by the id that begin_runs returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  run ai.runs;
  caller ai.caller;
  claim ai.claim;
  key_is_revoked boolean;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  used_tokens bigint;
  input_tokens bigint;
  token_limit bigint;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null, k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    k.name, p.id, p.payer, coalesce(w.provider_cost_visible, true), w.model_limits
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.key_name, caller.plan_id, caller.payer, caller.cost_visible, caller.model_limits
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked and not step ? 'output' then
    return ai.refusal('invalid_api_key');
  end if;
  caller.source := run.credential_source;
  caller.markup := run.markup;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  claim.model_id := run.model_id;
  claim.model_requests_per_minute := (caller.model_limits -> run.model_id ->> 'requests')::integer;
  claim.model_tokens_per_minute := (caller.model_limits -> run.model_id ->> 'tokens')::bigint;
  if step ? 'output' then
    return ai.extend_output(run, caller, step -> 'output');
  end if;
  if run.app_id is not null then
    select r.refused, private.gateway_scopes(a) into caller.refused, caller.scopes
    from private.apps a
    cross join lateral private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) r
    where a.id = run.app_id;
    if not found or caller.refused is not null then
      -- Only the app's registration is checked, as for its tokens.
      caller.source := 'app_token';
      caller.refused := coalesce(caller.refused, 'app_not_allowed');
      return ai.call_refusal(caller);
    end if;
  end if;

  select x.usd, i.text_tokens + i.image_tokens + i.audio_tokens into step_usd, input_tokens
  from ai.input_tokens(request.input_bytes, request.images, request.audio_seconds) as i
  cross join lateral ai.maximum_cost(
    run.routes, i.text_tokens, i.image_tokens, i.audio_tokens, request.output_limit * coalesce(request.choices, 1),
    request.hour_writes, request.service_tier, null, false
  ) as x;
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  claim.caller := caller;
  claim.request := request;
  claim.request.kind := 'chat';
  claim.request.entity_id := run.entity_id;
  claim.routes := run.routes;
  claim.output_limit := request.output_limit;

  token_limit := least(caller.key_tokens_per_minute, claim.model_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    claim.tokens := ai.reserved_tokens(
      input_tokens, request.output_limit, request.choices, request.output_limit_assumed, token_limit
    );
    if claim.tokens > token_limit then
      claim.refusal := ai.token_limit_refusal(caller, claim.model_tokens_per_minute, input_tokens, claim.tokens);
      return ai.explain_refusal(claim, run);
    end if;
    -- In the minute of the last reservation, replaces the reserved tokens with those that the earlier steps used. In a
    -- new minute, reserves only this step's tokens.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    claim.minute := run.tokens_reserved_at;
    claim.replaced_tokens := run.reserved_tokens - used_tokens;
  end if;
  claim.requests := 0;
  claim.budget_scopes := run.budget_scopes;
  claim.envelope_id := run.envelope_id;
  if run.envelope_id is not null then
    claim.envelope := jsonb_build_object('id', run.envelope_id, 'label', coalesce(
      (select e.label from ai.envelopes e where e.id = run.envelope_id), ''
    ));
  end if;
  claim.cost_usd := step_usd;
  claim.account_id := run.account_id;
  claim.credits := total_credits - run.reserved_credits;
  claim := (ai.reserve(array[claim]))[1];
  if claim.refusal is not null then
    -- Without `frees`: the run itself holds part of the room, and a retry would pay for its earlier steps again.
    return ai.explain_refusal(claim, run) - 'frees';
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    expected_usd = r.expected_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + claim.tokens, r.reserved_tokens),
    tokens_reserved_at = case when claim.tokens is not null then claim.minute else r.tokens_reserved_at end,
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

-- Reserves further output of a run's current call in the budgets that reserved only the expected output. Its cost is
-- that share of what the maximum cost is above the reserved one, which is never less than what the output costs, because
-- the maximum cost is the highest of several linear functions. Returns what extend_run returns.
create or replace function ai.extend_output(run ai.runs, caller ai.caller, output jsonb) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  reserved bigint := (output ->> 'from')::bigint;
  output_limit bigint := (output ->> 'limit')::bigint;
  step_tokens bigint := greatest(least((output ->> 'to')::bigint, output_limit) - reserved, 0);
  rest_usd numeric := run.reserved_usd - run.expected_usd;
  claim ai.claim;
begin
  if run.expected_scopes is not null then
    -- The call took its place in the rate windows when it began, with its whole output.
    caller.key_requests_per_minute := null;
    caller.key_tokens_per_minute := null;
    caller.workspace_requests_per_minute := null;
    caller.workspace_tokens_per_minute := null;
    claim.caller := caller;
    claim.request.kind := 'chat';
    claim.request.entity_id := run.entity_id;
    claim.model_id := run.model_id;
    claim.requests := 0;
    claim.budget_scopes := run.expected_scopes;
    claim.credits := 0;
    claim.cost_usd := case
      when reserved + step_tokens >= output_limit then rest_usd
      else least(ceil(rest_usd * step_tokens / (output_limit - reserved) * 1e12) / 1e12, rest_usd)
    end;
    claim := (ai.reserve(array[claim]))[1];
    if claim.refusal is not null then
      return ai.explain_refusal(claim, run, with_suggestions => false) - 'frees';
    end if;
    update ai.runs r
    set expected_usd = r.expected_usd + claim.cost_usd, touched_at = now()
    where r.created_at = run.created_at and r.id = run.id;
  end if;
  return jsonb_build_object(
    'reserved_usd', run.reserved_usd::text, 'reserved_credits', run.reserved_credits::text
  );
end
$$;

-- Reserves provider calls in the rate windows, budgets and balances that they share, in the order of the calls. A call
-- that a limit refuses reserves nothing, but counts as a request in the rate windows before that limit. Returns the calls
-- with their limits and the start of their windows, or with the refusal, whose limit and room ai.explain_refusal turns
-- into what the caller may read. Not granted to any role, because it trusts its caller.
create or replace function ai.reserve(claims ai.claim[]) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  locks ai.lock_list := ai.collect_locks(claims);
  locked record := ai.lock_rows(locks);
  -- The locked rows, which the loop changes and the end writes.
  windows ai.rate_windows[];
  budgets ai.budgets[] := locked.budgets;
  accounts ai.credit_accounts[] := locked.accounts;
  window_ids uuid[];
  budget_subjects uuid[] := '{}';
  budget_entries text[];
  budget ai.budgets;
  limited ai.limit_subject;
  account_ids uuid[];
  claim ai.claim;
  -- The places of a call's rows, which are null for limits that it does not have.
  of_key integer;
  of_model integer;
  of_workspace integer;
  of_budgets integer[];
  entries text[];
  of_account integer;
  of_budget integer;
  of_envelope integer;
  room jsonb;
  full_budget integer;
  entry text;
  earlier ai.idempotency_keys;
  tokens bigint;
  refused_by text;
  frees boolean;
  room_usd numeric;
  reserves_expected boolean := false;
  has_counted boolean := false;
  has_reserved boolean := false;
  has_refused boolean := false;
begin
  if locks.rate_windows is not null then
    windows := array(
      select w
      from ai.rate_windows w
      where w.subject_id = any (array(select s.subject_id from unnest(locks.rate_windows) as s))
    );
  end if;
  for place in 1..coalesce(cardinality(windows), 0) loop
    window_ids[place] := windows[place].subject_id;
  end loop;
  for place in 1..coalesce(cardinality(budgets), 0) loop
    budget := budgets[place];
    if budget.ends_at <= now() or budget.starts_at is null then
      budget := ai.current_budget(budget, now());
      budgets[place] := budget;
    end if;
    reserves_expected := reserves_expected or budget.reserves_expected;
    budget_subjects[place] := budget.subject_id;
    budget_entries[place] := ai.budget_entry(budget.scope, budget.period);
  end loop;
  for place in 1..coalesce(cardinality(accounts), 0) loop
    account_ids[place] := accounts[place].id;
  end loop;
  if reserves_expected then
    claims := ai.expect_outputs(claims);
  end if;

  -- Decides in memory, because a call must find what the calls before it have left of every limit.
  for place in 1..cardinality(claims) loop
    claim := claims[place];
    continue when claim.refusal is not null;
    earlier := null;
    if (claim.request).idempotency_key is not null then
      select i.* into earlier
      from ai.idempotency_keys i
      where i.workspace_id = (claim.caller).workspace_id
        and i.principal_id = ai.principal_id(claim.caller)
        and i.key = (claim.request).idempotency_key
        and i.expires_at > now();
    end if;
    of_key := case
      when num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).lineage_id), 0)
    end;
    of_model := case
      when num_nonnulls(claim.model_requests_per_minute, claim.model_tokens_per_minute) > 0 then coalesce(
        array_position(window_ids, ai.model_window_id((claim.caller).workspace_id, claim.model_id)), 0
      )
    end;
    of_workspace := case
      when num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).workspace_id), 0)
    end;
    of_account := case
      when claim.account_id is not null and (claim.request).is_free is not true then coalesce(array_position(account_ids, claim.account_id), 0)
    end;
    of_budgets := '{}';
    entries := '{}';
    of_envelope := null;
    full_budget := null;
    if budgets is not null and claim.budget_scopes is not null then
      foreach entry in array claim.budget_scopes loop
        limited := ai.claimed_budget(claim, split_part(entry, '/', 1));
        foreach of_budget in array array_positions(budget_subjects, limited.subject_id) loop
          -- A call that begins is held by the budgets of all periods, a step by those that held its run's first call.
          continue when entry not like '%/*' and entry <> budget_entries[of_budget];
          budget := budgets[of_budget];
          continue when budget.scope <> limited.scope or budget.workspace_id <> limited.workspace_id;
          of_budgets := of_budgets || of_budget;
          entries := entries || budget_entries[of_budget];
          if budget.scope = 'envelope' then
            of_envelope := of_budget;
          end if;
          if full_budget is null and not ai.fits_budget(claim, budget) then
            full_budget := of_budget;
          end if;
        end loop;
      end loop;
    end if;
    claim.budget_scopes := entries;
    -- In the window of the run's last reservation, replaces the tokens that earlier steps reserved and did not use.
    tokens := claim.tokens - case
      when claim.minute = greatest(
        windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
      )
        then claim.replaced_tokens
      else 0
    end;
    refused_by := case
      when of_key is not null and not ai.fits_window(
        windows[of_key], claim.requests, case when earlier.key is null then tokens else 0 end,
        (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
      ) then 'key_window'
      when earlier.key is not null then 'idempotency'
      when budgets[full_budget].scope <> 'workspace' then 'budget'
      when of_model is not null and not ai.fits_window(
        windows[of_model], claim.requests, tokens, claim.model_requests_per_minute, claim.model_tokens_per_minute
      ) then 'model_window'
      when of_workspace is not null and not ai.fits_window(
        windows[of_workspace], claim.requests, tokens,
        (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
      ) then 'workspace_window'
      when full_budget is not null then 'workspace_budget'
      when not coalesce(accounts[of_account].balance - accounts[of_account].reserved >= claim.credits, of_account is null)
        then 'balance'
    end;

    has_counted := has_counted or refused_by is distinct from 'key_window';
    if of_key is not null and refused_by is distinct from 'key_window' then
      windows[of_key].requests := windows[of_key].requests + claim.requests;
    end if;
    if of_model is not null and coalesce(refused_by in ('workspace_window', 'workspace_budget', 'balance'), true) then
      windows[of_model].requests := windows[of_model].requests + claim.requests;
    end if;
    if of_workspace is not null and coalesce(refused_by in ('workspace_budget', 'balance'), true) then
      windows[of_workspace].requests := windows[of_workspace].requests + claim.requests;
    end if;
    if refused_by is null then
      has_reserved := true;
      if of_key is not null then
        windows[of_key].tokens := windows[of_key].tokens + coalesce(tokens, 0);
      end if;
      if of_model is not null then
        windows[of_model].tokens := windows[of_model].tokens + coalesce(tokens, 0);
      end if;
      if of_workspace is not null then
        windows[of_workspace].tokens := windows[of_workspace].tokens + coalesce(tokens, 0);
      end if;
      foreach of_budget in array of_budgets loop
        budget := budgets[of_budget];
        if budget.period <> 'concurrent' then
          budget.reserved_usd := budget.reserved_usd + ai.budget_need(claim, budget);
          if budget.reserves_expected and claim.expected_usd is not null then
            claim.expected_scopes := claim.expected_scopes || budget_entries[of_budget];
          end if;
        end if;
        if budget.period = 'concurrent' or of_budget = of_envelope then
          budget.calls := budget.calls + claim.requests;
        end if;
        budgets[of_budget] := budget;
      end loop;
      if of_envelope is not null then
        room := ai.envelope_room(budgets[of_envelope], ai.payer_id(claim.caller) is null or (claim.caller).cost_visible);
        -- The gateway computes with what is left, so it is an exact decimal in text.
        claim.envelope := claim.envelope || room
          || jsonb_strip_nulls(jsonb_build_object('remaining_usd', room ->> 'remaining_usd'));
      end if;
      if of_account is not null then
        accounts[of_account].reserved := accounts[of_account].reserved + claim.credits;
      end if;
    elsif refused_by in ('budget', 'workspace_budget') then
      -- Stores the time of the window's first refusal, and of later refusals at most once a minute. An envelope whose
      -- running calls only reserve too much hasn't stopped its run.
      if (
          full_budget = of_envelope and not ai.fits_when_settled(claim, budgets[full_budget])
          or full_budget is distinct from of_envelope
            and budgets[full_budget].reserved_usd + ai.budget_need(claim, budgets[full_budget])
              + budgets[full_budget].spent_usd > budgets[full_budget].limit_usd
        )
        and coalesce(
          budgets[full_budget].refused_at < greatest(now() - interval '1 minute', budgets[full_budget].starts_at), true
        ) then
        budgets[full_budget].refused_at := now();
        has_refused := true;
      end if;
    elsif refused_by = 'balance' and of_account > 0 then
      if coalesce(accounts[of_account].refused_at < now() - interval '1 minute', true) then
        accounts[of_account].refused_at := now();
        has_refused := true;
      end if;
    end if;

    claim.minute := greatest(
      windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
    );
    claim.limits := ai.rate_limit_headers(
      coalesce(windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start), array[
        (claim.caller).key_requests_per_minute, windows[of_key].requests,
        (claim.caller).key_tokens_per_minute, windows[of_key].tokens,
        (claim.caller).workspace_requests_per_minute, windows[of_workspace].requests,
        (claim.caller).workspace_tokens_per_minute, windows[of_workspace].tokens
      ], case when of_model is not null then array[
        claim.model_requests_per_minute, windows[of_model].requests, claim.model_tokens_per_minute, windows[of_model].tokens
      ] end
    );
    if refused_by = 'idempotency' then
      claim.refusal := ai.idempotent_refusal(earlier, decode((claim.request).fingerprint, 'hex'));
    elsif refused_by is not null then
      -- Whether the budgets and the balance had room if no other call reserved anything. If so, the call may be admitted
      -- as soon as running calls are settled.
      frees := refused_by in ('budget', 'workspace_budget', 'balance')
        and coalesce(accounts[of_account].balance >= claim.credits, claim.credits = 0);
      room_usd := null;
      foreach of_budget in array of_budgets loop
        frees := frees and ai.fits_when_settled(claim, budgets[of_budget]);
        room_usd := least(room_usd, ai.budget_room(claim, budgets[of_budget]));
      end loop;
      claim.refusal := ai.refusal(
        case refused_by
          when 'balance' then 'insufficient_credits'
          when 'budget' then ai.budget_refusal_code(budgets[full_budget])
          when 'workspace_budget' then ai.budget_refusal_code(budgets[full_budget])
          else 'rate_limit_exceeded'
        end,
        case
          when coalesce(of_key, of_model, of_workspace) is not null then jsonb_build_object('limits', claim.limits::json, 'at', now())
          else '{}'
        end || case when frees then jsonb '{"frees": true}' else '{}' end || jsonb_build_object(
          'limit', case
            when refused_by = 'key_window' then ai.window_limit(
              'key', windows[of_key], claim.requests, tokens,
              (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
            )
            when refused_by = 'model_window' then ai.window_limit(
              'model', windows[of_model], claim.requests, tokens,
              claim.model_requests_per_minute, claim.model_tokens_per_minute
            )
            when refused_by = 'workspace_window' then ai.window_limit(
              'workspace', windows[of_workspace], claim.requests, tokens,
              (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
            )
            when refused_by = 'balance' then ai.balance_limit(accounts[of_account])
            when full_budget = of_envelope then claim.envelope || ai.envelope_limit(budgets[full_budget])
            when budgets[full_budget].period = 'concurrent' then ai.concurrency_limit(budgets[full_budget])
            else ai.budget_limit(budgets[full_budget])
          end,
          'room', jsonb_build_object(
            'usd', room_usd,
            'credits', accounts[of_account].balance - accounts[of_account].reserved,
            'tokens', claim.tokens - tokens + least(
              (claim.caller).key_tokens_per_minute - windows[of_key].tokens,
              claim.model_tokens_per_minute - windows[of_model].tokens,
              (claim.caller).workspace_tokens_per_minute - windows[of_workspace].tokens
            )
          ),
          'need', case
            when refused_by in ('key_window', 'model_window', 'workspace_window') then jsonb_strip_nulls(jsonb_build_object('tokens', tokens))
            when refused_by = 'balance' then jsonb_build_object('credits', claim.credits)
            when budgets[full_budget].period = 'concurrent' then '{}'
            -- With tokens if the amount is that of the usual output, of so many tokens.
            else jsonb_strip_nulls(jsonb_build_object(
              'usd', ai.budget_need(claim, budgets[full_budget]),
              'tokens', case when budgets[full_budget].reserves_expected then claim.expected_output end
            ))
          end
        )
      );
    end if;
    claims[place] := claim;
  end loop;

  if locks.keys is not null then
    perform ai.record_key_use(locks.keys);
  end if;
  if windows is not null and has_counted then
    update ai.rate_windows w set requests = n.requests, tokens = n.tokens
    from unnest(windows) as n
    where w.subject_id = any (window_ids) and w.subject_id = n.subject_id and w.scope = n.scope
      and (w.requests, w.tokens) <> (n.requests, n.tokens);
  end if;
  if budgets is not null and (has_reserved or has_refused) then
    update ai.budgets b
    set reserved_usd = n.reserved_usd, spent_usd = n.spent_usd, starts_at = n.starts_at, ends_at = n.ends_at,
      calls = n.calls, refused_at = n.refused_at
    from unnest(budgets) as n
    where b.scope = n.scope and b.subject_id = n.subject_id and b.workspace_id = n.workspace_id and b.period = n.period
      and (b.reserved_usd, b.calls, b.refused_at) is distinct from (n.reserved_usd, n.calls, n.refused_at);
  end if;
  if accounts is not null and (has_reserved or has_refused) then
    update ai.credit_accounts a set reserved = n.reserved, refused_at = n.refused_at
    from unnest(accounts) as n
    where a.id = any (account_ids) and a.id = n.id and a is distinct from n;
  end if;
  return claims;
end
$$;

-- Returns the refusal of a call for a usable model that has no route. If the model has one outside the allowed regions,
-- the refusal says so.
create or replace function ai.route_refusal(model text, request ai.run_request, allowed_regions text[]) returns jsonb
  language sql stable security invoker
as $$
  select case
    when allowed_regions is not null
      and exists (select from ai.open_routes((request).providers) r where r.model_id = model)
      then ai.refusal('region_not_allowed', '{"param": "model"}')
    else ai.refusal('model_not_found')
  end
$$;

-- Settles a batch of runs and returns the runs that changed. If idle_since is given, only open runs without a heartbeat
-- since then change. A report that cannot be booked does not block the others: its run stays open, and it is logged.
-- Lock timeouts are raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  budget ai.budgets;
  learning uuid[];
  -- The places of the settlements that were booked one by one.
  booked integer[];
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null)
      || array_agg(row('model', ai.model_window_id(s.workspace_id, s.model_id), null)::ai.limit_subject)
        filter (where s.window_start is not null and s.has_model_limit) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), r.envelope_id,
        r.feature, case when r.is_open then r.expected_usd else 0 end, r.expected_scopes
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start, r.model_id,
      case when r.window_start is not null then exists (
        select from ai.workspace_policies p where p.workspace_id = r.workspace_id and p.model_limits ? r.model_id
      ) end as has_model_limit,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        r.envelope_id, r.feature, r.expected_usd, r.expected_scopes, n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- Without a range of created_at, with which Postgres would read all the runs between the oldest and the newest.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      split_part(t.entry, '/', 1),
      ai.budget_subject(split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id),
      d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d
    cross join unnest(d.budget_scopes) as t (entry);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);
  -- A report that can't be booked may be the only one of a run with budgets.
  if locked.budgets is not null then
    foreach budget in array locked.budgets loop
      if budget.reserves_expected then
        learning := learning || budget.workspace_id;
      end if;
    end loop;
  end if;

  begin
    return ai.book_settlements(due, outcomes_due, idle_since is not null, learning);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(due[place:place], outcomes_due[place:place], idle_since is not null, null);
      last_changed := outcomes_due[place].id;
      booked := booked || place;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  if learning is not null then
    -- In one statement, because two batches that record one run after another could deadlock.
    perform ai.record_outputs(
      array(select due[b.place] from unnest(booked) as b (place)),
      array(select outcomes_due[b.place] from unnest(booked) as b (place)), learning
    );
  end if;
  return changed;
end
$$;

-- Closes and charges runs, and returns them. learning are the workspaces whose usual output is recorded. Raises
-- unique_violation if a run has several settlements. The caller has locked the runs and their rate windows, budgets and
-- accounts. Idempotency keys are last in the lock order.
create or replace function ai.book_settlements(
  due ai.settlement[], outcomes ai.run_outcome[], is_sweep boolean, learning uuid[]
) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  closed_runs bigint;
  changed jsonb[];
  has_windows boolean;
  has_budgets boolean;
  has_failures boolean;
  has_keys boolean;
begin
  with closed as (
    update ai.runs r
    set
      status = d.status,
      http_status = d.http_status,
      error_code = d.error_code,
      usage_source = d.usage_source,
      route = coalesce(d.route, r.route),
      input_tokens = coalesce(d.input_tokens, 0),
      cached_input_tokens = coalesce(d.cached_input_tokens, 0),
      audio_input_tokens = coalesce(d.audio_input_tokens, 0),
      output_tokens = coalesce(d.output_tokens, 0),
      reasoning_tokens = coalesce(d.reasoning_tokens, 0),
      audio_output_tokens = coalesce(d.audio_output_tokens, 0),
      cache_write_tokens = coalesce(d.cache_write_tokens, 0),
      cache_write_1h_tokens = coalesce(d.cache_write_1h_tokens, 0),
      image_input_tokens = coalesce(d.image_input_tokens, 0),
      fee_requests = coalesce(d.fee_requests, 0),
      served_tier = d.served_tier,
      marks = coalesce(d.marks, '{}'),
      billing_name = d.billing_name,
      billing_account = d.billing_account,
      cost_usd = coalesce(d.cost_usd, 0),
      billed_credits = d.billed_credits,
      unmetered_credits = d.unmetered_credits,
      first_byte_ms = coalesce(d.first_byte_ms, r.first_byte_ms),
      latency_ms = d.latency_ms,
      steps = d.steps,
      attempts = d.attempts,
      touched_at = now(),
      settled_at = now(),
      swept = is_sweep
    from unnest(due, outcomes) as d
    where r.created_at = d.created_at and r.id = d.id
    returning r.id
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - p.credits, reserved = a.reserved - p.released
    from (
      select d.account_id as id, sum(d.credits_due) as credits, sum(d.credits_released) as released
      from unnest(due, outcomes) as d
      group by 1
    ) as p
    where a.id = p.id
    returning a.id, a.balance
  ), charged as (
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    select
      d.account_id, d.kind, -d.credits_due, p.balance + coalesce(sum(d.credits_due) over later, 0), d.created_at, d.id
    from unnest(due, outcomes) as d
    left join paid p on p.id = d.account_id
    where d.credits_due <> 0
    window later as (partition by d.account_id order by d.id desc rows between unbounded preceding and 1 preceding)
    order by d.account_id, d.id
  )
  select
    (select count(*) from closed), array_agg(d.answer), bool_or(d.window_start is not null),
    bool_or(d.budget_scopes <> '{}'), bool_or(d.has_key), bool_or(jsonb_path_exists(d.attempts, '$[*].failure'))
  into closed_runs, changed, has_windows, has_budgets, has_keys, has_failures
  from unnest(due, outcomes) as d;
  if closed_runs < cardinality(due) then
    raise exception 'a run is reported several times' using errcode = 'unique_violation';
  end if;

  if has_windows then
    update ai.rate_windows w
    set tokens = greatest(w.tokens + c.tokens, 0)
    from (
      select
        s.scope, s.subject_id, d.window_start,
        sum(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0) - d.counted_tokens) as tokens
      from unnest(due, outcomes) as d
      cross join lateral (
        values
          ('key', d.key_lineage_id), ('model', ai.model_window_id(d.workspace_id, d.model_id)), ('workspace', d.workspace_id)
      ) as s (scope, subject_id)
      where d.window_start is not null
      group by 1, 2, 3
    ) as c
    -- A window that began after the run's tokens were reserved is not changed.
    where w.scope = c.scope and w.subject_id = c.subject_id and w.window_start <= c.window_start;
  end if;
  if has_budgets then
    update ai.budgets b
    set
      -- A budget that was deleted and set again holds no reservation of earlier runs.
      reserved_usd = greatest(b.reserved_usd - c.released, 0),
      spent_usd = b.spent_usd + (
        -- A run counts in the window in which it began.
        select coalesce(sum(m.cost_usd), 0)
        from unnest(c.begun, c.costs_usd) as m (begun, cost_usd)
        where m.begun >= coalesce(b.starts_at, b.period_start::timestamp at time zone 'UTC')
      ),
      calls = greatest(b.calls - c.ended_calls, 0)
    from (
      select
        split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period, d.workspace_id,
        ai.budget_subject(
          split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id
        ) as subject_id,
        coalesce(sum(
          case when t.entry = any (d.expected_scopes) then d.expected_usd else d.usd_released end
        ) filter (where t.entry not like '%/concurrent'), 0) as released,
        array_agg(d.created_at) as begun,
        array_agg(d.cost_due_usd) filter (where t.entry not like '%/concurrent') as costs_usd,
        count(*) filter (where t.entry like '%/concurrent' and d.kind = 'usage') as ended_calls
      from unnest(due, outcomes) as d
      cross join unnest(d.budget_scopes) as t (entry)
      group by 1, 2, 3, 4
    ) as c
    where b.scope = c.scope and b.subject_id = c.subject_id and b.workspace_id = c.workspace_id and b.period = c.period;
  end if;
  if has_failures then
    insert into ai.failed_attempts (
      run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
      upstream_request_id
    )
    select
      d.created_at, d.id, d.request_id, d.workspace_id, d.model_id, a.provider, a.model, a.route, a.status, a.failure,
      a.upstream_request_id
    from unnest(due, outcomes) as d
    cross join lateral jsonb_to_recordset(d.attempts) as a (
      route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
    )
    -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
    where a.failure not in ('skipped', 'cancelled');
  end if;
  if learning is not null then
    perform ai.record_outputs(due, outcomes, learning);
  end if;
  if has_keys then
    delete from ai.idempotency_keys i
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key and d.key_unused));
    update ai.idempotency_keys i
    set state = 'finished'
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key));
  end if;
  return to_jsonb(changed);
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, failed attempts and refused calls older than
-- seven days, and envelopes 90 days after their end, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
  histories integer;
  refused integer;
  envelopes integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  keys := private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', at_most);

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  attempts := private.delete_expired_rows('ai.failed_attempts', 'at', '7 days', at_most);
  histories := private.delete_expired_rows('ai.output_histories', 'updated_at', '30 days', at_most);
  refused := private.delete_expired_rows('ai.refused_calls_default', 'created_at', '7 days', at_most);
  with old as (
    select e.id, e.workspace_id
    from ai.envelopes e
    join ai.budgets b on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id
    where e.opened_at < now() - interval '90 days' and b.ends_at < now() - interval '90 days'
    order by e.opened_at
    limit at_most
  ), budgets as (
    delete from ai.budgets b using old
    where b.scope = 'envelope' and b.subject_id = old.id and b.workspace_id = old.workspace_id
  ), alerts as (
    delete from ai.budget_alerts a using old
    where a.scope = 'envelope' and a.subject_id = old.id and a.workspace_id = old.workspace_id
  )
  delete from ai.envelopes e using old where e.id = old.id;
  get diagnostics envelopes = row_count;
  -- Last, because this locks ai.refused_calls until the transaction ends.
  perform ai.rotate_refused_call_partitions();
  return keys + windows + attempts + histories + refused + envelopes;
end
$$;

-- Changes an account's policy for an admin; no other function does. Takes { actor, subject, step, generation, reason,
-- requestId, ip } and returns { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict |
-- in_progress | unchanged | factors_left }. step is require, make_optional, begin_reset or finish_reset. begin_reset
-- closes the account. finish_reset opens it again, but only after all authenticators are deleted. generation is the
-- policy generation that the admin saw, 0 if there was none. Each step adds an entry to the audit log. Each step except
-- begin_reset also adds an event, which is emailed to the owner.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write. The actor's id can be trusted:
-- only our server has the service role, and it takes the id from a verified session. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls this function. The database does not know this setting and enforces
-- policies regardless of it.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  new_policy jsonb;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: if the policy has changed since the admin saw it, the admin must decide again.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.delete_auth_sessions(subject);
    -- Deletes all of the user's recovery codes, so that no code can end the reset. This includes a code that has
    -- already begun a recovery.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  new_policy := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', new_policy, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, event_kind)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, event_kind)
  where e.of_step = step;
  return jsonb_build_object('policy', new_policy);
end
$$;

-- Returns why the actor may not change an email's recovery: forbidden if the actor is not an infrastructure admin,
-- oneself if the email is the actor's own. Returns null if the change is allowed. Records each refusal. Not granted to
-- any role: only security definer functions call it.
-- Definer: emails, including the admins' own, are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.recovery_actor_refusal(request jsonb, of_email text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (request ->> 'actor')::uuid;
  refused text;
begin
  if not private.is_infrastructure_admin(actor) then
    refused := 'forbidden';
  elsif exists (select from auth.users u where u.id = actor and lower(u.email) = lower(of_email)) then
    refused := 'oneself';
  else
    return null;
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', of_email)
  );
  return refused;
end
$$;

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, consoleRole, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, since, satisfied } }. Returns { alive: false } if the session has
-- ended. policy.since is the Unix time from which required MFA accepts proofs, or null if MFA is optional.
-- policy.state is optional, required, recovery_in_progress or malformed. consoleRole is admin, finance or null.
-- Until 0.5.0: servers of release 0.3.0 require infrastructureAdmin.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'since', case when m.state in ('required', 'recovery_in_progress') then
          f.app_metadata #> '{platform_required_mfa,boundary}'
        end,
        'satisfied', not f.banned and not f.deleted and v.satisfied
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'consoleRole', private.console_role(f.user_id),
      'infrastructureAdmin', private.is_infrastructure_admin(f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
      floor(extract(epoch from now()))::bigint
    ) as v (satisfied)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Returns whether an account is an infrastructure admin, who may use the whole console. Sets no search_path, so Postgres
-- can inline the function.
create or replace function private.is_infrastructure_admin(account_id uuid) returns boolean
  language sql stable security invoker
as $$
  select exists (select from private.infrastructure_admins a where a.user_id = account_id)
$$;

-- Returns an account's role in the console: admin, finance or null. The role finance opens only the platform's books.
-- Sets no search_path, so Postgres can inline the function.
create or replace function private.console_role(account_id uuid) returns text
  language sql stable security invoker
as $$
  select case
    when private.is_infrastructure_admin(account_id) then 'admin'
    when exists (select from private.finance_people f where f.user_id = account_id) then 'finance'
  end
$$;

-- Sets one budget; null removes it. A budget of period concurrent has max_calls instead of an amount. Requires
-- manage_ai_policy or, for a key's budget, manage_ai_keys. For the scope label, takes the label's text and derives the
-- subject from it. time_zone, thresholds and reserves_expected stay the same if they are null. The arguments that begin
-- with read are what the member saw; read_time_zone, read_thresholds and read_reserves_expected are compared only if
-- given. If one of them has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with the
-- current settings), invalid (with param and message), not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null,
  period text default 'month', time_zone text default null, thresholds smallint[] default null,
  max_calls bigint default null, read_time_zone text default null, read_thresholds smallint[] default null,
  read_max_calls bigint default null, reserves_expected boolean default null,
  read_reserves_expected boolean default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  new_limit numeric := change_budget.limit_usd::numeric;
  fault record;
  old ai.budgets;
  current ai.budgets;
  differences jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  fault := ai.budget_fault(scope, period, time_zone, thresholds, new_limit, max_calls, reserves_expected);
  if fault.param is not null then
    return jsonb_build_object('outcome', 'invalid', 'param', fault.param, 'message', fault.message);
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  old := ai.find_budget(scope, subject, workspace, period);
  if old.limit_usd is distinct from read_limit_usd::numeric
    or old.max_calls is distinct from read_max_calls
    or old.time_zone <> read_time_zone
    or old.thresholds <> ai.sorted_thresholds(read_thresholds)
    or old.reserves_expected <> read_reserves_expected then
    return jsonb_build_object('outcome', 'changed_meanwhile') || ai.budget_settings(old);
  end if;
  perform ai.set_budget(
    scope, subject, workspace, new_limit, label, period, time_zone, thresholds, max_calls, reserves_expected
  );
  current := ai.find_budget(scope, subject, workspace, period);
  select coalesce(jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)), '{}') into differences
  from jsonb_each(ai.budget_settings(current)) n
  join jsonb_each(ai.budget_settings(old)) o using (key)
  where n.value <> o.value and (current.scope is not null or n.key in ('limitUsd', 'maxCalls'));
  if differences = '{}' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object(
      'scope', scope, 'before', trim_scale(old.limit_usd)::text, 'after', trim_scale(current.limit_usd)::text
    ) || case when period <> 'month' then jsonb_build_object('period', period) else '{}' end || differences - 'limitUsd'
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Sets the budget of a workspace, or of one of its apps, key lineages, members or labels, for one period. A limit of null
-- removes the budget; the row stays and counts on, and reserves maximum costs if it is set again. A period of concurrent
-- takes max_calls instead of a limit. time_zone, thresholds and reserves_expected default to those that the budget had,
-- or else to UTC, {50,80,100} and false. A new budget starts with the cost of the window's settled runs. Runs that are in
-- progress when the budget is created are not counted in it. Another time zone recomputes the window and what was spent
-- in it, and keeps what is reserved. Raises an exception if an argument is invalid. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null, period text default 'month',
  time_zone text default null, thresholds smallint[] default null, max_calls bigint default null,
  reserves_expected boolean default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault record := ai.budget_fault(scope, period, time_zone, thresholds, limit_usd, max_calls, reserves_expected);
  old ai.budgets;
  new_zone text;
  count_from timestamptz;
  count_to timestamptz;
begin
  if fault.param is not null then
    raise exception '%', fault.message using errcode = 'invalid_parameter_value';
  end if;
  -- Locks the budget first, so that a run that is settled meanwhile is either in the sum below or added to it later.
  select * into old from ai.budgets b
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace and b.period = set_budget.period
  for no key update;
  if num_nonnulls(limit_usd, max_calls) = 0 then
    update ai.budgets b set limit_usd = null, max_calls = null, reserves_expected = false
    where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
    return;
  end if;
  new_zone := coalesce(set_budget.time_zone, old.time_zone, 'UTC');
  if new_zone is distinct from old.time_zone then
    select w.starts_at, w.ends_at into count_from, count_to from ai.budget_window(set_budget.period, new_zone, now()) w;
  end if;
  if old.scope is null then
    insert into ai.budgets as b (
      scope, subject_id, workspace_id, period, label, limit_usd, max_calls, time_zone, thresholds, reserves_expected, starts_at, ends_at,
      spent_usd
    )
    values (
      set_budget.scope, subject, workspace, set_budget.period, set_budget.label, set_budget.limit_usd, set_budget.max_calls,
      new_zone, coalesce(ai.sorted_thresholds(set_budget.thresholds), '{50,80,100}'),
      coalesce(set_budget.reserves_expected, false), count_from, count_to,
      case
        when set_budget.period = 'concurrent' then 0
        else ai.recorded_cost(set_budget.scope, subject, workspace, set_budget.label, count_from)
      end
    );
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    max_calls = set_budget.max_calls,
    thresholds = coalesce(ai.sorted_thresholds(set_budget.thresholds), b.thresholds),
    reserves_expected = coalesce(set_budget.reserves_expected, b.reserves_expected),
    time_zone = new_zone,
    starts_at = coalesce(count_from, b.starts_at),
    ends_at = coalesce(count_to, b.ends_at),
    spent_usd = case
      when count_from is null or b.period = 'concurrent' then b.spent_usd
      else ai.recorded_cost(b.scope, b.subject_id, b.workspace_id, b.label, count_from)
    end,
    -- Raising the limit clears the refusal, because the refused call may now fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
  perform ai.reset_budget_alert(set_budget.scope, subject, workspace, set_budget.period);
end
$$;

-- Returns which argument of a budget is invalid and why, or nulls.
create or replace function ai.budget_fault(
  scope text, period text, time_zone text, thresholds smallint[], limit_usd numeric, max_calls bigint,
  reserves_expected boolean, out param text, out message text
)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if coalesce(period not in ('day', 'week', 'month', 'total', 'concurrent'), true) then
    param := 'period';
    message := 'The period must be day, week, month, total or concurrent.';
  elsif period = 'concurrent' and scope not in ('workspace', 'member', 'key') then
    param := 'period';
    message := 'Only a workspace, a member or a key can have a limit of concurrent calls.';
  elsif period = 'concurrent' and limit_usd is not null then
    param := 'limitUsd';
    message := 'A limit of concurrent calls has no amount.';
  elsif period = 'concurrent' and reserves_expected then
    param := 'reservesExpected';
    message := 'A limit of concurrent calls reserves no amount.';
  elsif limit_usd < 0 then
    param := 'limitUsd';
    message := 'The limit must not be negative.';
  elsif period <> 'concurrent' and max_calls is not null or max_calls < 0 then
    param := 'maxCalls';
    message := 'Only a limit of concurrent calls has a maximum number of calls, of at least 0.';
  elsif cardinality(thresholds) > 5 or not 0 < all (thresholds) or not 100 >= all (thresholds)
    or array_position(thresholds, null) is not null then
    param := 'thresholds';
    message := 'There can be at most 5 thresholds, from 1 to 100 percent.';
  -- Postgres also reads abbreviations, offsets and any case, which other programs don't. Its view of all zones is slow.
  elsif time_zone <> 'UTC' and not exists (
    select from pg_catalog.pg_timezone_names z
    where z.name = time_zone and z.name ~ '^[A-Z]' and z.name <> 'Factory'
  ) then
    param := 'timeZone';
    message := format('The time zone %s is unknown. Use an IANA name, such as Europe/Berlin.', time_zone);
  end if;
end
$$;

-- Returns what can be changed of a budget.
create or replace function ai.budget_settings(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'timeZone', coalesce((budget).time_zone, 'UTC'),
    'thresholds', coalesce((budget).thresholds, '{50,80,100}'),
    'maxCalls', (budget).max_calls,
    'reservesExpected', coalesce((budget).reserves_expected, false)
  )
$$;

-- Returns a page of a workspace's budgets and their use in their current windows, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, other
-- subjects by when they were created, and budgets of a subject by their period. A subject without a budget appears once,
-- as a monthly budget without a limit. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. startsAt and endsAt are null for budgets without
-- windows. maxCalls and calls are the maximum and the number of concurrent calls. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Until 0.5.0, for servers of 0.3.0: month and endsAt of the answer are those of the UTC month, and without all_periods,
-- only monthly budgets are returned.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[], all_periods boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'period', p.period,
          'timeZone', coalesce((p.budget).time_zone, 'UTC'),
          'startsAt', case when isfinite(p.starts_at) then ai.utc_text(p.starts_at) end,
          'endsAt', case when isfinite(p.ends_at) then ai.utc_text(p.ends_at) end,
          'thresholds', coalesce((p.budget).thresholds, '{50,80,100}'),
          'reservesExpected', coalesce((p.budget).reserves_expected, false),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'maxCalls', (p.budget).max_calls,
          'calls', case when p.period = 'concurrent' then (p.budget).calls end,
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.period = p.period and a.month = (p.starts_at at time zone ai.known_time_zone((p.budget).time_zone))::date
              and a.threshold > 0 and a.posted_at is not null and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select
          s.*, b as budget, x.period, c.spent_usd as spent, o.position,
          case when b.scope is null then this_month at time zone 'UTC' else c.starts_at end as starts_at,
          case when b.scope is null then (this_month + interval '1 month') at time zone 'UTC' else c.ends_at end as ends_at
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace
            and num_nonnulls(b.limit_usd, b.max_calls) > 0 and (all_periods or b.period = 'month')
        cross join lateral ai.current_budget(b, now()) as c
        cross join lateral (select coalesce(b.period, 'month') as period) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] || case
            when all_periods then array[array_position(array['day', 'week', 'month', 'total', 'concurrent'], x.period)::text]
          end as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or c.spent_usd > 0)
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns the statement of a month (YYYY-MM), for members who may see credits: { outcome: listed, month, from, to,
-- workspace, accounts, paidByMembers }. A month in progress ends now. accounts are those of ai.credit_accounts_of, each
-- with its opening balance, additions, deductions, use by model and member, corrections of runs, use in the payer's
-- other workspaces and closing balance. unexplained is what these lines leave open, which is 0 unless the ledger is
-- damaged. paidByMembers are credits that runs of this workspace took from other balances, for example before its plan
-- changed. Returns { outcome: bad_window, fault } for a month that has not begun.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_statement(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  window_from timestamptz := (of_month || '-01')::date;
  month_end timestamptz := (of_month || '-01')::date + interval '1 month';
  window_to timestamptz := least(month_end, now());
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  elsif window_from >= now() then
    return jsonb_build_object('outcome', 'bad_window', 'fault', 'The month has not begun.');
  end if;
  return (
    with shown as materialized (
      select a.id, a.workspace_id, ai.last_entry_before(a.id, window_from) as first_id,
        ai.last_entry_before(a.id, window_to) as last_id
      from ai.credit_accounts_of(member_id, workspace) a
    ), entries as materialized (
      select l.*, r.workspace_id as run_workspace, r.model_id, r.actor_id
      from shown a
      join ai.credit_ledger l on l.account_id = a.id and l.id > a.first_id and l.id <= a.last_id
      left join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    ), sums as (
      -- Reads the balances from the ledger, as ai.balance_changes does, so that a missing entry is noticed.
      select
        a.id,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.first_id
        ), 0) as opening,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.last_id
        ), 0) as closing,
        coalesce(sum(e.amount) filter (where e.run_id is null), 0) as changed,
        -coalesce(sum(e.amount) filter (
          where e.kind = 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as used,
        coalesce(sum(e.amount) filter (
          where e.kind <> 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as corrected,
        -coalesce(sum(e.amount) filter (where e.run_id is not null and e.run_workspace <> workspace), 0) as elsewhere
      from shown a
      left join entries e on e.account_id = a.id
      group by a.id, a.first_id, a.last_id
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'month', of_month,
      'from', ai.utc_text_microseconds(window_from),
      'to', ai.utc_text_microseconds(window_to),
      'isEnded', month_end <= now(),
      'workspace', (select jsonb_build_object('id', w.id, 'name', w.name) from public.workspaces w where w.id = workspace),
      'paidByMembers', (
        select trim_scale(coalesce(sum(r.billed_credits), 0))::text
        from ai.runs r
        where r.workspace_id = workspace
          and r.created_at >= window_from
          and r.created_at < window_to
          and r.billed_credits <> 0
          and r.account_id not in (select a.id from shown a)
      ),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
            'opening', trim_scale(s.opening)::text,
            'added', (
              select trim_scale(coalesce(sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount > 0
            ),
            'deducted', (
              select trim_scale(coalesce(-sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount < 0
            ),
            'used', trim_scale(s.used)::text,
            'corrected', trim_scale(s.corrected)::text,
            'usedElsewhere', trim_scale(s.elsewhere)::text,
            'unexplained', trim_scale(
              s.closing - s.opening - s.changed + s.used - s.corrected + s.elsewhere
            )::text,
            'closing', trim_scale(s.closing)::text,
            'changes', ai.credit_statement_changes(a.id, a.first_id, a.last_id),
            'use', (
              select coalesce(jsonb_agg(
                jsonb_build_object(
                  'model', u.model_id, 'memberId', u.actor_id, 'member', u.name, 'requests', u.requests,
                  'credits', trim_scale(u.credits)::text
                )
                order by u.credits desc, u.model_id collate "C", u.actor_id
              ), '[]')
              from (
                select e.model_id, e.actor_id, ai.member_label(workspace, e.actor_id) as name, count(*) as requests,
                  -sum(e.amount) as credits
                from entries e
                where e.account_id = a.id and e.kind = 'usage' and e.run_id is not null
                  and coalesce(e.run_workspace, workspace) = workspace
                group by e.model_id, e.actor_id
              ) u
            )
          )
          order by a.workspace_id is null
        ), '[]')
        from shown a
        join sums s on s.id = a.id
      )
    )
  );
end
$$;

-- Returns the additions to an account and the deductions from it without a run, from after first_id to last_id, oldest
-- first, each with its description and reference. Not granted to any role.
create or replace function ai.credit_statement_changes(account uuid, first_id bigint, last_id bigint) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', l.id::text, 'at', ai.utc_text_microseconds(l.created_at), 'kind', l.kind,
      'credits', trim_scale(l.amount)::text, 'description', l.description, 'reference', r.reference
    )
    order by l.id
  ), '[]')
  from ai.credit_ledger l
  left join ai.credit_references r on r.account_id = l.account_id and r.entry_id = l.id
  where l.account_id = account and l.run_id is null and l.id > first_id and l.id <= last_id
$$;

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. availableUsd is the provider cost that a balance pays for at the plan's markup. Each account has the
-- changes of its balance in the window (ai.balance_changes). elsewhere has the credits of the window's runs that no
-- account shown paid in the window, so that runCredits less these credits is what the accounts paid, and whether members'
-- own balances paid part of them. With with_totals = false, returns only the page, for an export that reads page by page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  -- Null if the workspace hides provider cost, or if its calls are free.
  credits_per_usd numeric := case when ai.cost_visible(workspace) then (
    select nullif(ai.credits_per_usd(p.markup), 0)
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace
  ) end;
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(report_window.window_from),
    'to', ai.utc_text_microseconds(report_window.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= report_window.window_from
            and l.created_at < report_window.window_to
            and l.id < last_id
            -- A member's balance pays for runs in all of their free workspaces, but only this workspace's runs are
            -- listed here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select
        a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer,
        ai.balance_changes(a, workspace, report_window.window_from, report_window.window_to) as changes
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select
        coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered,
        coalesce(sum(u.billed_credits), 0)
          - coalesce((select sum((a.changes ->> 'runs')::numeric) from accounts a), 0) as elsewhere
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to) u
    ), unlinked as (
      select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text,
            'availableUsd', trim_scale(round((a.balance - a.reserved) / credits_per_usd, 12))::text,
            'changes', a.changes
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'elsewhere', (
        select jsonb_build_object(
          'credits', trim_scale(r.elsewhere)::text,
          'membersPaid', case r.elsewhere when 0 then false else ai.members_paid(workspace) end
        )
        from runs r
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= report_window.window_from and l.created_at < report_window.window_to
          ))::text
        )
        from runs r cross join unlinked o
      )
    )
  );
end
$$;

-- Returns how an account's balance changed in a half-open window: { opening, added, deducted, runs, otherRuns, closing }.
-- opening + added - deducted - runs - otherRuns = closing. added and deducted are entries without a run. otherRuns were
-- made in other workspaces, whose runs a member's own balance also pays.
create or replace function ai.balance_changes(
  account ai.credit_accounts, workspace uuid, window_from timestamptz, window_to timestamptz
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  first_id bigint := ai.last_entry_before((account).id, window_from);
  last_id bigint := ai.last_entry_before((account).id, window_to);
  opening numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = first_id
  ), 0);
  closing numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = last_id
  ), 0);
  unlinked record;
  runs numeric;
  other_runs numeric := 0;
begin
  select
    coalesce(sum(l.amount) filter (where l.amount > 0), 0) as added,
    coalesce(-sum(l.amount) filter (where l.amount < 0), 0) as deducted
  into unlinked
  from ai.credit_ledger l
  where l.account_id = (account).id and l.run_id is null and l.id > first_id and l.id <= last_id;
  if (account).user_id is null then
    -- Saves reading the entries of all runs of a busy workspace.
    runs := opening + unlinked.added - unlinked.deducted - closing;
  else
    select
      coalesce(-sum(l.amount) filter (where r.id is not null), 0),
      coalesce(-sum(l.amount) filter (where r.id is null), 0)
    into runs, other_runs
    from ai.credit_ledger l
    left join ai.runs r
      on r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = balance_changes.workspace
    where l.account_id = (account).id and l.run_id is not null and l.id > first_id and l.id <= last_id;
  end if;
  return jsonb_build_object(
    'opening', trim_scale(opening)::text,
    'added', trim_scale(unlinked.added)::text,
    'deducted', trim_scale(unlinked.deducted)::text,
    'runs', trim_scale(runs)::text,
    'otherRuns', trim_scale(other_runs)::text,
    'closing', trim_scale(closing)::text
  );
end
$$;

-- Returns the id of an account's last ledger entry before a moment, or 0 if there is none. Entries are numbered in the
-- order of their balances, so a binary search finds the entry without reading the ledger.
create or replace function ai.last_entry_before(account uuid, moment timestamptz) returns bigint
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  -- All entries up to low are before the moment, and no entry after high is.
  low bigint := 0;
  high bigint;
  middle bigint;
  entry record;
begin
  select l.id, l.created_at into entry from ai.credit_ledger l where l.account_id = account order by l.id desc limit 1;
  if not found or entry.created_at < moment then
    return coalesce(entry.id, 0);
  end if;
  high := entry.id;
  while low < high loop
    middle := (low + high) / 2;
    select l.id, l.created_at into entry
    from ai.credit_ledger l
    where l.account_id = account and l.id > middle
    order by l.id
    limit 1;
    if entry.created_at < moment then
      low := entry.id;
    else
      high := middle;
    end if;
  end loop;
  return coalesce((
    select l.id from ai.credit_ledger l where l.account_id = account and l.id <= low order by l.id desc limit 1
  ), 0);
end
$$;

-- Returns whether members' own balances have paid for runs of a workspace: all runs cost more than the workspace's
-- balance has paid.
create or replace function ai.members_paid(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(sum(u.billed_credits), 0) <> coalesce((
    select (
      select coalesce(sum(l.amount), 0) from ai.credit_ledger l where l.account_id = a.id and l.run_id is null
    ) - a.balance
    from ai.credit_accounts a
    where a.workspace_id = members_paid.workspace
  ), 0)
  from ai.usage_between(workspace, '2000-01-01', now() + interval '1 day') u
$$;

-- Returns an account for the console's lists: { id, email, displayName, singleSignOn, consoleRole, policy, banned,
-- confirmed, deleted, authenticators, lastSignInAt, createdAt }. Until 0.5.0: servers of release 0.3.0 require admin.
create or replace function private.describe_account(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', account.id,
    'email', account.email,
    'displayName', p.display_name,
    'singleSignOn', account.is_sso_user,
    'consoleRole', private.console_role(account.id),
    'admin', private.is_infrastructure_admin(account.id),
    'policy', private.required_mfa_state(account.raw_app_meta_data),
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'deleted', account.deleted_at is not null,
    'authenticators', (
      select count(*) from auth.mfa_factors f where f.user_id = account.id and f.status = 'verified'
    ),
    'lastSignInAt', account.last_sign_in_at,
    'createdAt', coalesce(p.created_at, account.created_at)
  )
  from (values (account.id)) as a (id)
  left join public.profiles p on p.id = a.id
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, consoleRole, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. methods comes from private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last,
-- and sessionCount counts up to 1,001. others contains apps, devices, agents and everything else that acts for the
-- account, as private.account_access lists it. Contains no secret. Until 0.5.0: servers of release 0.3.0 require
-- infrastructureAdmin.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'consoleRole', private.console_role(u.id),
    'infrastructureAdmin', private.is_infrastructure_admin(u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'type', c.record -> 'type',
        'verified', c.is_active,
        'createdAt', c.created_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at, c.id), '[]')
      from private.account_credentials c
      where c.user_id = u.id and c.kind = 'authenticator'
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id),
    'others', (
      select coalesce(jsonb_agg(w order by w ->> 'addedAt' desc, w ->> 'key'), '[]')
      from jsonb_array_elements(private.account_access(u.id, null, 0) -> 'ways') as w
      where w ->> 'kind' not in ('password', 'identity', 'passkey', 'authenticator')
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.is_infrastructure_admin((change ->> 'actor')::uuid)
      then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = (change ->> 'actor')::uuid then jsonb_build_object('refused', 'oneself')
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

-- Returns why a person or a satellite's session may not use a book, or null if they may. A workspace's book is for
-- members with the permission use_ai_studio, and the platform's for the console's roles admin and finance: { outcome:
-- not_allowed }. A session opens only workspaces' books: { refused } (private.studio_refusal). Not granted to any role.
create or replace function ai.book_refusal(member_id uuid, book uuid, token_hash bytea default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when token_hash is not null then (
      select jsonb_build_object('refused', s.reason)
      from private.studio_refusal(token_hash, book) as s (reason)
      where s.reason is not null
    )
    when book = ai.platform_book() and private.console_role(member_id) in ('admin', 'finance') then null
    when private.user_has_workspace_permission(member_id, book, 'use_ai_studio') then null
    else '{"outcome": "not_allowed"}'::jsonb
  end
$$;

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current, services }, { outcome:
-- not_found } or ai.book_refusal. current summarizes the daily totals that the import wrote and that were not corrected
-- later, and services names what they consist of (ai.imported_services).
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'provider', i.provider,
      'sha256', encode(i.file_sha256, 'hex'),
      'appName', ai.app_label(i.app_id),
      'import', ai.cost_import_summary(i.id),
      'current', (
        select jsonb_build_object(
          'days', count(*),
          'accounts', count(distinct c.account_id),
          'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text,
          'firstDay', min((c.occurred_at at time zone 'UTC')::date),
          'lastDay', max((c.occurred_at at time zone 'UTC')::date)
        )
        from ai.cost_book_entries c
        where c.book_id = workspace
          and c.app_id = i.app_id
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      ),
      'services', ai.imported_services(i)
    )
    from ai.cost_imports i
    where i.id = read_cost_import.import_id and i.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns one invoice of a book, with its recorder (ai.invoice_recorder), who attached its document
-- (ai.document_attacher), and its comparison (ai.invoice_comparison): { outcome: read, invoice, recorded, attachedBy,
-- comparison }, { outcome: not_found } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'invoice', ai.invoice_summary(i),
      'recorded', ai.invoice_recorder(i),
      'attachedBy', ai.document_attacher(i),
      'comparison', ai.invoice_comparison(workspace, ai.invoice_summary(i), i.id)
    )
    from ai.invoice_book_entries i
    where i.id = invoice_id and i.book_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns the closed months that a person's invoice would change: those of its days, and of the days of the invoice that
-- it replaces. Returns none for a recorded invoice, because nothing is stored. Not granted to any role.
create or replace function ai.months_closed_to_invoice(book uuid, app uuid, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select distinct m.month
    from (
      select ai.invoice_days(r.period_start, r.period_end, r.issued_on) as days from ai.invoice_of(record) r
      union all
      select ai.invoice_days((i).period_start, (i).period_end, (i).issued_on)
      from ai.find_invoice(book, app, record, record ->> 'replaces') i
      where (i).id is not null
    ) d
    cross join lateral unnest(ai.closed_months(book, lower(d.days), upper(d.days) - 1)) as m (month)
    where (ai.find_invoice(book, app, record, record ->> 'reference')).id is null
    order by m.month
  )
$$;

-- Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: {
-- inMonth: { amountUsd, netAmount, taxAmount, firstDay, lastDay } }. The net amount and the tax are in the invoice's
-- currency, and null if it has none. The invoice's days must overlap the month. The amounts of a credit note are
-- negative. Returns null if the month is null. Not granted to any role.
create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'netAmount', trim_scale(ai.invoice_part(invoice, (invoice).net_amount, d.days))::text,
      'taxAmount', trim_scale(ai.invoice_part(invoice, (invoice).tax_amount, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;

-- Returns the amount in USD that an invoice adds to totals, for all of its days or only for those within a range. The
-- amount of a credit note is negative.
create or replace function ai.invoice_amount(invoice ai.invoice_book_entries, within daterange default null) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  select ai.invoice_part(invoice, (invoice).amount_usd, within)
$$;

-- Returns the calls of a day to ask OpenRouter about, those never asked first: { outcome: listed, calls: [{ runId,
-- generationId }], remaining } or ai.statement_refusal. These are calls without a known cost or, with asked_before, all
-- calls without an answer since then. remaining is how many the limit leaves out.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_unmatched_generations(
  member_id uuid, workspace uuid, of_day date, asked_before timestamptz, max_calls integer
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'listed',
      'calls', coalesce(jsonb_agg(jsonb_build_object('runId', c.run_id, 'generationId', c.generation_id) order by c.place)
        filter (where c.place <= max_calls), '[]'),
      'remaining', count(*) filter (where c.place > max_calls)
    )
    from (
      select c.run_id, c.generation_id,
        row_number() over (order by g.observed_at nulls first, c.created_at, c.generation_id) as place
      from ai.generation_calls(of_day) c
      left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
      where c.generation_id is not null
        and (g.observed_at is null or case when asked_before is null then g.cost_usd is null else g.observed_at < asked_before end)
    ) c
  ))
$$;

-- Returns a page of a book's statements, the latest month first, and whether a month is closed: { outcome: listed,
-- isClosed, records } or ai.book_refusal. after is the month and the version of the last statement of the page before.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_statements(
  member_id uuid, workspace uuid, of_month text, after text[] default null, page_size integer default 13
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), jsonb_build_object(
    'outcome', 'listed',
    'isClosed', ai.closed_months(workspace, lower(ai.month_days(of_month)), lower(ai.month_days(of_month))) <> '{}',
    'records', (
      select coalesce(jsonb_agg(ai.statement_summary(s) order by s.month desc, s.version desc), '[]')
      from (
        select *
        from ai.book_statements t
        where t.book_id = workspace
          and (after is null or (t.month, t.version) < ((after[1] || '-01')::date, after[2]::integer))
        order by t.month desc, t.version desc
        limit page_size
      ) s
    )
  ))
$$;

-- Returns whether change.actor may change apps. The actor must be an infrastructure admin, or null for the command
-- line.
create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select change ->> 'actor' is null
    or private.is_infrastructure_admin((change ->> 'actor')::uuid)
$$;

create or replace trigger reject_wrong_cost_services after insert or update on ai.cost_services
  for each row execute function ai.reject_wrong_cost_services();

-- Applies to every role, including the table's owner.
create or replace trigger reject_document_change before update or delete on ai.invoice_documents
  for each row execute function ai.reject_invoice_change();

-- Prevents every role, including the table's owner, from truncating the table.
create or replace trigger reject_document_truncate before truncate on ai.invoice_documents
  for each statement execute function ai.reject_invoice_change();

-- Applies to every role, including the table's owner.
create or replace trigger reject_statement_change before update or delete on ai.book_statements
  for each row execute function ai.reject_statement_change();

-- Rejects TRUNCATE for every role, including the table's owner.
create or replace trigger reject_statement_truncate before truncate on ai.book_statements
  for each statement execute function ai.reject_statement_change();

grant execute on function ai.attach_invoice_document(uuid, uuid, uuid, text, text, jsonb) to service_role;

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text, text, text, smallint[], bigint, text, smallint[], bigint, boolean, boolean) to service_role;

grant execute on function ai.close_month(uuid, uuid, text, text, jsonb, jsonb) to service_role;

grant execute on function ai.find_import_rate(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.list_cost_services(uuid, uuid, uuid[]) to service_role;

grant execute on function ai.list_statements(uuid, uuid, text, text[], integer) to service_role;

grant execute on function ai.list_unmatched_generations(uuid, uuid, date, timestamp with time zone, integer) to service_role;

grant execute on function ai.read_close_checklist(uuid, uuid, text) to service_role;

grant execute on function ai.read_credit_statement(uuid, uuid, text) to service_role;

grant execute on function ai.read_generation_costs(uuid, uuid, date, integer, integer) to service_role;

grant execute on function ai.read_invoice_document(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_statement(uuid, uuid, uuid, boolean) to service_role;

grant execute on function ai.reopen_month(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.store_generation_costs(uuid, uuid, date, jsonb, jsonb) to service_role;

grant execute on function private.claim_cost_import(text) to service_role;

grant execute on function private.compare_usage_hours(uuid, text, date, timestamp with time zone, text, integer, integer) to service_role;

grant execute on function private.confirm_missed_days(jsonb) to service_role;

grant execute on function private.console_role(uuid) to service_role;

grant execute on function private.finish_cost_import(text, uuid, text, boolean, integer) to service_role;

grant execute on function private.is_infrastructure_admin(uuid) to service_role;

grant execute on function private.list_console_people() to service_role;

grant execute on function private.mark_gateway_key(text, text, boolean, jsonb) to service_role;

grant execute on function private.read_cost_importers() to service_role;

grant execute on function private.request_cost_import(jsonb) to service_role;

grant execute on function private.set_console_role(text, text, text) to service_role;

grant execute on function private.store_imported_costs(text, uuid, date, date, jsonb) to service_role;

grant execute on function private.store_usage_hours(text, date, jsonb, jsonb) to service_role;

notify pgrst, 'reload schema';
