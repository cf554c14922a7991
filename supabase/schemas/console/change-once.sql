-- Makes each change that the admin API repeats only once.

-- Calls a change of the console, unless its caller already made it with the same idempotency key. The change has the
-- fields of the function that name names, an actor or a service account, idempotencyKey and requestHash (the text of a
-- bytea). Returns the function's answer. A repeated request gets the first answer, with { repeated: true }. Returns {
-- refused: key_reused } if the key belongs to another request, and { refused: forbidden } unless exactly one caller is
-- named, who may use the console now. A refused change stores nothing, so that a corrected request can use the same key.
create or replace function private.change_once(name text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  caller uuid := coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid;
  request_key text := change ->> 'idempotencyKey';
  hash bytea := (change ->> 'requestHash')::bytea;
  earlier private.idempotency_keys;
  answer jsonb;
begin
  -- A concurrent request with the same key waits for the first one.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'private.change_once', caller, request_key), 0));
  -- The change asks for its scope. Some changes without a caller are the command line's, which has no keys.
  if num_nonnulls(change ->> 'actor', change ->> 'serviceAccount') <> 1
    or not private.is_infrastructure_admin((change ->> 'actor')::uuid)
    and not exists (
      select
      from private.live_service_accounts((change ->> 'serviceAccount')::uuid) s
      where s.workspace_id is null
    ) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into earlier from private.idempotency_keys k where k.caller_id = caller and k.key = request_key;
  if found then
    return case
      when earlier.request_hash = hash then earlier.answer || jsonb_build_object('repeated', true)
      else jsonb_build_object('refused', 'key_reused')
    end;
  end if;
  answer := private.make_console_change(name, change);
  if not answer ? 'refused' then
    insert into private.idempotency_keys (caller_id, key, request_hash, answer)
    values (caller, request_key, hash, answer);
  end if;
  return answer;
end
$$;

-- Calls the change of the console that has this name, and returns its answer; null for another name.
create or replace function private.make_console_change(name text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  return case name
    when 'add_app' then private.add_app(change)
    when 'add_model_price' then private.add_model_price(change)
    when 'add_openid_client' then private.add_openid_client(change)
    when 'add_proposed_prices' then private.add_proposed_prices(change)
    when 'ban_account' then private.ban_account(change)
    when 'cancel_account_deletion' then private.cancel_account_deletion(change)
    when 'cancel_model_price' then private.cancel_model_price(change)
    when 'change_app' then private.change_app(change)
    when 'change_credits' then private.change_credits(change)
    when 'change_model_route' then private.change_model_route(change)
    when 'change_openid_client' then private.change_openid_client(change)
    when 'decline_key_approval' then private.decline_key_approval(change)
    when 'delete_model' then private.delete_model(change)
    when 'invite_account' then private.invite_account(change)
    when 'lift_address_block' then private.lift_address_block(change)
    when 'move_workspace' then private.move_workspace(change)
    when 'request_account_deletion' then private.request_account_deletion(change)
    when 'revoke_account_invitation' then private.revoke_account_invitation(change)
    when 'save_model' then private.save_model(change)
    when 'save_model_setup' then private.save_model_setup(change)
    when 'save_plan' then private.save_plan(change)
    when 'save_provider_limit' then private.save_provider_limit(change)
    when 'set_key_approval' then private.set_key_approval(change)
    when 'set_model_enabled' then private.set_model_enabled(change)
    when 'set_model_grant' then private.set_model_grant(change)
    when 'set_sign_up' then private.set_sign_up(change)
    when 'set_workspace_budget' then private.set_workspace_budget(change)
    when 'set_workspace_policy' then private.set_workspace_policy(change)
    when 'sign_account_out' then private.sign_account_out(change)
    when 'unban_account' then private.unban_account(change)
  end;
end
$$;
