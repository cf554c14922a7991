-- Taking an authenticator from an account. The identity backend's own call knows no account that must have one; and
-- between a count of ours and its deletion the other one could be taken away.

create function private.tell_owner(event jsonb, mail jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  owner_email text := private.record_security_event(event) ->> 'email';
  kept_id uuid;
begin
  if owner_email is not null and jsonb_typeof(mail) = 'object' then
    insert into private.outgoing_mails (recipient, subject, body)
    values (owner_email, mail ->> 'subject', mail ->> 'body')
    returning id into kept_id;
  end if;
  return jsonb_build_object('mailId', kept_id, 'recipient', owner_email);
end
$$;
comment on function private.tell_owner(jsonb, jsonb) is
  'Adds to an account''s log (private.record_security_event) and keeps the mail { subject, body } that tells its owner, '
  'where there is one: { mailId, recipient }. For functions that change credentials, in their transaction: whoever loses '
  'their answer has told the owner all the same. The one who gets it tries the mail at once.';
revoke execute on function private.tell_owner(jsonb, jsonb) from public, anon, authenticated;

-- Definer: factors and sessions are the identity backend's, which the service role cannot write.
create function private.delete_authenticator(
  subject_id uuid,
  actor_session_id uuid,
  target_id uuid,
  event jsonb,
  mail jsonb
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- One at a time for each account, as every change of its policy: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  return jsonb_build_object('outcome', 'deleted') || private.tell_owner(event, mail);
end
$$;
comment on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) is
  'Takes an authenticator app from its account, and with the last one the recovery codes, which have nothing left to '
  'recover, and tells the owner (private.tell_owner): { outcome: deleted, mailId, recipient }, or outcome '
  'last_of_required where the account must have one, insufficient_aal where the session has yet to prove one, not_found.';
revoke execute on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) from public, anon, authenticated;
grant execute on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) to service_role;
