-- Generated from supabase/schemas by npm run db:migration.

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  proved record;
  app private.apps;
begin
  select * into proved from private.session_proof(claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  select * into app
  from private.apps a
  where a.name = target_app and a.kind in ('internal', 'external') and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (proved.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (proved.proof).session_id,
    'factor', (proved.proof).factor_id,
    'secondFactorAt', (proved.proof).second_factor_second,
    'primaryAt', (proved.proof).primary_second,
    'generation', (proved.proof).generation,
    'validUntil', proved.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;
