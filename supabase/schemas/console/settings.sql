-- The settings of the platform that admins change in the console.

-- Returns { signUp: open | invitation, updatedAt }.
create or replace function private.read_platform_settings() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('signUp', s.sign_up, 'updatedAt', s.updated_at) from private.platform_settings s
$$;

-- Opens sign-up to everyone, or closes it to people without an invitation. Takes { actor or serviceAccount, signUp (open
-- | invitation), seen (the setting that the caller saw), reason, requestId, ip }. Returns {} or { refused: forbidden }, or
-- { refused: conflict, last } if the setting is no longer what the caller saw. Existing accounts are not affected.
-- Definer: the service role cannot write settings.
create or replace function private.set_sign_up(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  update private.platform_settings s
  set sign_up = change ->> 'signUp', updated_at = now()
  where s.sign_up = change ->> 'seen' and s.sign_up <> change ->> 'signUp';
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('sign-up'));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'settings.sign_up',
    'target', 'sign-up',
    'before', jsonb_build_object('signUp', change ->> 'seen'),
    'after', jsonb_build_object('signUp', change ->> 'signUp')
  ));
  return '{}';
end
$$;
