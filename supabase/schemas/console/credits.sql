-- Shows the credit accounts of workspaces and members in the console, and lets admins grant or withdraw credits.

-- Returns the credit account of a workspace or member with a page of its ledger, newest first: { payer, id, name,
-- personalUserId, plan, account, entries }. Returns null for an unknown owner. plan is null if no plan currently
-- charges the account, and account is null if it is not open yet.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_credit_account(
  payer text, owner_id uuid, before_id bigint default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
  -- A generic plan would read the whole ledger for each page.
  set plan_cache_mode = force_custom_plan
as $$
  select jsonb_build_object(
    'payer', payer,
    'id', o.id,
    'name', o.name,
    'personalUserId', o.personal_user_id,
    -- The plan that the account pays for now.
    'plan', (
      select jsonb_build_object(
        'id', p.id, 'name', p.name, 'initialCredits', trim_scale(p.initial_credits)::text,
        'lowCredits', trim_scale(ai.low_credits(p))::text
      )
      from ai.paying_plan(payer, o.id) p
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      )
      from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = o.id
    ),
    'entries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', e.id::text,
        'createdAt', ai.utc_text_microseconds(e.created_at),
        'kind', e.kind,
        'amount', trim_scale(e.amount)::text,
        'balanceAfter', trim_scale(e.balance_after)::text,
        'runId', e.run_id,
        'description', e.description,
        'reference', r.reference
      ) order by e.id desc), '[]')
      from (
        select l.*
        from ai.credit_accounts a
        join ai.credit_ledger l on l.account_id = a.id
        where coalesce(a.workspace_id, a.user_id) = o.id and (before_id is null or l.id < before_id)
        order by l.id desc
        limit page_size
      ) e
      left join ai.credit_references r on r.account_id = e.account_id and r.entry_id = e.id
    )
  )
  from (
    select w.id, w.name::text, w.personal_user_id
    from public.workspaces w
    where payer = 'workspace' and w.id = owner_id and w.deleted_at is null
    union all
    select u.id, coalesce(u.email, u.id::text), u.id
    from auth.users u
    where payer = 'member' and u.id = owner_id and u.deleted_at is null
  ) o
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
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
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
  if private.is_responsible(change, personal) then
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
    -- Never an email or a personal workspace, because the entry outlives the account.
    'targetName', (select w.name from public.workspaces w where w.id = owner_id and personal is null),
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;
