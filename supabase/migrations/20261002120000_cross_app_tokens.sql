-- The handoff of a signed-in person to an app: the web server asks what the session has proved, signs that, and stores
-- it with the hash of a new token; the app redeems the token once, and what was signed is checked again then.

create table private.cross_app_tokens (
  id uuid primary key default gen_random_uuid(),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  user_id uuid not null references auth.users (id) on delete cascade,
  app_id uuid not null references private.apps (id) on delete cascade,
  origin_app text not null default 'web' check (origin_app = 'web'),
  proof text not null check (char_length(proof) between 1 and 4096),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  redeemed_at timestamptz,
  revoked_at timestamptz,
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '300 seconds')
);
comment on table private.cross_app_tokens is
  'One-time tokens that hand a person over to one app. Only their SHA-256 is kept, and no session of theirs or ours.';
comment on column private.cross_app_tokens.proof is
  'The required-MFA proof, signed by the web server with a key of its own: a row that somebody else wrote redeems nothing.';
create index cross_app_tokens_user_id_idx on private.cross_app_tokens (user_id, created_at);
create index cross_app_tokens_app_id_idx on private.cross_app_tokens (app_id);
create index cross_app_tokens_expires_at_idx on private.cross_app_tokens (expires_at);

select private.protect_table('private.cross_app_tokens');

create function private.proof_of(facts jsonb) returns private.mfa_proof
  language sql
  immutable
  security invoker
as $$
  select row(
    (facts ->> 'user')::uuid,
    (facts ->> 'session')::uuid,
    (facts ->> 'factor')::uuid,
    (facts ->> 'secondFactorAt')::bigint,
    (facts ->> 'primaryAt')::bigint,
    (facts ->> 'generation')::bigint
  )::private.mfa_proof
$$;
comment on function private.proof_of(jsonb) is 'The signed facts of a handoff as the rows of its credentials keep them.';
revoke execute on function private.proof_of(jsonb) from public, anon, authenticated;

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  facts record;
  app private.apps;
  -- Whichever second factor is the later one: of the session itself, or of the approval that is bound to it.
  own_second bigint;
  by_approval boolean;
  current_second bigint := floor(extract(epoch from now()));
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  if private.required_mfa_state(facts.app_metadata) = 'malformed' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    current_second
  ) then
    return jsonb_build_object('refused', 'mfa_required');
  end if;
  select * into app from private.apps a where a.name = target_app and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;

  own_second := case
    when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
      then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
  end;
  by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
  return jsonb_build_object(
    'user', facts.user_id,
    'target', app.name,
    'targetId', app.id,
    'session', facts.session_id,
    'factor', case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
    'secondFactorAt', case when by_approval then facts.approval_second else own_second end,
    'primaryAt', private.latest_amr_second(claims -> 'amr', private.primary_methods()),
    'generation', private.policy_generation(facts.app_metadata),
    'validUntil', case when by_approval then facts.approval_valid_until end,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;
comment on function private.required_mfa_proof(jsonb, text, integer) is
  'What the session of verified claims has proved, for the web server to sign: {user, target, session, factor, '
  'secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt}, seconds since 1970 and times, or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. validUntil ends what an approval lent.';
revoke execute on function private.required_mfa_proof(jsonb, text, integer) from public, anon, authenticated;
grant execute on function private.required_mfa_proof(jsonb, text, integer) to service_role;

create function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with target as (
    -- Held: whoever turns the app off waits, and ends this token with the others, or is waited for, and it is not stored.
    select a.id from private.apps a where a.id = (facts ->> 'targetId')::uuid and a.enabled for share
  ),
  minted as (
    insert into private.cross_app_tokens (token_hash, user_id, app_id, proof, created_at, expires_at)
    select
      mint_cross_app_token.token_hash,
      (facts ->> 'user')::uuid,
      t.id,
      mint_cross_app_token.proof,
      (facts ->> 'issuedAt')::timestamptz,
      (facts ->> 'expiresAt')::timestamptz
    from target t
    returning id
  )
  select exists (select from minted)
$$;
comment on function private.mint_cross_app_token(bytea, jsonb, text) is
  'Stores a token for the facts of required_mfa_proof, with the web server''s signature over them. False where the app '
  'has been turned off since.';
revoke execute on function private.mint_cross_app_token(bytea, jsonb, text) from public, anon, authenticated;
grant execute on function private.mint_cross_app_token(bytea, jsonb, text) to service_role;

-- Definer: accounts, of which one is held, are the identity backend's.
create function private.revoke_cross_app_tokens(user_id uuid) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  revoked integer;
begin
  perform private.hold_app_credentials(revoke_cross_app_tokens.user_id);
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = revoke_cross_app_tokens.user_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now();
  get diagnostics revoked = row_count;
  return revoked;
end
$$;
comment on function private.revoke_cross_app_tokens(uuid) is
  'Ends every outstanding token of a user and says how many. The web server has the user from verified claims.';
revoke execute on function private.revoke_cross_app_tokens(uuid) from public, anon, authenticated;
grant execute on function private.revoke_cross_app_tokens(uuid) to service_role;

-- Definer: authenticate_app, which would tell names and secrets apart, is granted to nobody.
create function private.cross_app_token_proof(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  return jsonb_build_object(
    'app', jsonb_build_object('id', app.id, 'name', app.name, 'kind', app.kind, 'scopes', app.scopes),
    'proof', (
      select t.proof
      from private.cross_app_tokens t
      where t.token_hash = cross_app_token_proof.token_hash
        and t.app_id = app.id
        and t.redeemed_at is null
        and t.revoked_at is null
        and t.expires_at > now()
    )
  );
end
$$;
comment on function private.cross_app_token_proof(text, bytea, bytea) is
  'First half of a redemption, which changes nothing: the app, and the stored proof for the web server to check, or a '
  'null one; {refused: unauthenticated} where the app did not prove itself.';
revoke execute on function private.cross_app_token_proof(text, bytea, bytea) from public, anon, authenticated;
grant execute on function private.cross_app_token_proof(text, bytea, bytea) to service_role;

create function private.consume_cross_app_token(token_hash bytea, app_id uuid, user_id uuid, proof text) returns uuid
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Whose it is first, as what is stored for them next would: whoever deletes the account comes by them, too, before they
  -- want this token.
  select from auth.users u where u.id = consume_cross_app_token.user_id for key share;
  update private.cross_app_tokens t
  set redeemed_at = now()
  where t.token_hash = consume_cross_app_token.token_hash
    and t.app_id = consume_cross_app_token.app_id
    and t.user_id = consume_cross_app_token.user_id
    and t.proof = consume_cross_app_token.proof
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now()
  returning t.id
$$;
comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'The one statement that redeems: of many callers at once one gets the id, the others null. The proof must be the very '
  'text that was checked. For definers; granted to nobody.';
revoke execute on function private.consume_cross_app_token(bytea, uuid, uuid, text) from public, anon, authenticated;

-- Definer: asks the identity backend's tables.
create function private.preview_handoff(user_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object('name', p.display_name, 'email', u.email)
  from auth.users u
  left join public.profiles p on p.id = u.id
  where u.id = preview_handoff.user_id
$$;
comment on function private.preview_handoff(uuid) is
  'Whom "Continue as …" names before a token is redeemed. The web server has the user from a proof that it checked.';
revoke execute on function private.preview_handoff(uuid) from public, anon, authenticated;
grant execute on function private.preview_handoff(uuid) to service_role;
