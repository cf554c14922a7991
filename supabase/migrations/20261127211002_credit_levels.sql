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
