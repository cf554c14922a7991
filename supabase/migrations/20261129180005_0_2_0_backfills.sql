-- Data of the new tables. Existing accounts become searchable, and balances that are already low send no email.
set lock_timeout = '500ms';

insert into private.account_search (user_id, email, terms)
select u.id, u.email, lower(concat_ws(e'\n', u.email, p.display_name))
from auth.users u
left join public.profiles p on p.id = u.id
on conflict (user_id) do nothing;

-- Balances that are low before the upgrade do not send an email for it.
insert into ai.credit_alerts (account_id, level, threshold, posted_at)
select a.id, case when a.balance <= 0 then 'empty' else 'low' end::ai.credit_level, t.threshold, now()
from ai.credit_accounts a
cross join lateral (
  select case when p.initial_credits > 0 then p.initial_credits * 0.1 else 10000 end as threshold
  from ai.plans p
  join public.workspaces w on w.plan_id = p.id and w.deleted_at is null
  where case
    when a.workspace_id is not null then p.payer = 'workspace' and w.id = a.workspace_id
    else p.payer = 'member' and exists (
      select from public.workspace_members m where m.workspace_id = w.id and m.user_id = a.user_id
    )
  end
  order by p.initial_credits desc, p.id
  limit 1
) t
where a.balance <= 0 or a.balance < t.threshold;

-- Functions and triggers are described in supabase/schemas, so the comments of 0.1.0 go. Functions in public may be an
-- operator's own, so these are named.
do $$
declare
  described text;
begin
  for described in
    select format('%s %s', case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure)
    from pg_proc p
    where obj_description(p.oid, 'pg_proc') is not null
      and (
        p.pronamespace in ('private'::regnamespace, 'ai'::regnamespace)
        or p.pronamespace = 'public'::regnamespace and p.proname in (
          'accept_workspace_invitation', 'create_workspace', 'delete_workspace', 'device_session_state',
          'required_mfa_enforcement_version', 'session_state', 'transfer_workspace_ownership', 'workspace_invitation'
        )
      )
    union all
    select format('trigger %I on %s', t.tgname, t.tgrelid::regclass)
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid
    join pg_proc p on p.oid = t.tgfoid and p.pronamespace in ('private'::regnamespace, 'ai'::regnamespace)
    where obj_description(t.oid, 'pg_trigger') is not null and pg_has_role(c.relowner, 'usage')
  loop
    execute format('comment on %s is null', described);
  end loop;
end
$$;
