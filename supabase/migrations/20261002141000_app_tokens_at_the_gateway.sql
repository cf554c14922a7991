-- What the gateway asks of an app, and of its tokens.

create function ai.app_token_of(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql
  stable
  security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.standing = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.standing = 'mfa_required' then 'MFA_REQUIRED'
      when p.standing <> 'good' then 'invalid_api_key'
      when not private.app_may_act_in(a, t.workspace_id) then 'app_not_allowed'
      when not private.is_member(t.user_id, t.workspace_id) then 'app_not_allowed'
      when not s.in_force @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_standing(t.proof) as p (standing)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  where t.token_hash = app_token_of.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;
comment on function ai.app_token_of(bytea) is
  'Whom a ttr_app_ token stands for by its SHA-256, with the scopes that token and registration share now, and why the '
  'gateway refuses it, by its own code; no row for unknown, expired or revoked. For definers; granted to nobody.';
revoke execute on function ai.app_token_of(bytea) from public, anon, authenticated;

create function ai.app_may_act_in(app_id uuid, workspace_id uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  return coalesce(
    (select private.app_may_act_in(a, app_may_act_in.workspace_id) from private.apps a where a.id = app_may_act_in.app_id),
    false
  );
end
$$;
comment on function ai.app_may_act_in(uuid, uuid) is
  'Whether a key that is bound to the app is good in the workspace now: registered, external, enabled, linked. For '
  'definers; granted to nobody.';
revoke execute on function ai.app_may_act_in(uuid, uuid) from public, anon, authenticated;
