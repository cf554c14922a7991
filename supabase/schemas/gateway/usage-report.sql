-- GET /v1/usage: returns the usage and cost of an app's runs in a window, in one statement.

-- Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact
-- decimals. A row's refused calls are those of the whole day. notes_use: the request counts as a use of the key.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql volatile security definer set search_path = ''
  -- Days of the report are UTC days.
  set timezone = 'UTC'
  -- Sorts a year's groups in memory, and plans the query only once per connection.
  set work_mem = '32MB' set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  report_window record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  if report_window.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', report_window.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(array[caller.key_id]);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, report_window.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits",
        sum(u.refused) as refused
      from (
        select
          b.day, b.model_id, b.feature, b.execution_mode, b.cost_usd, b.requests, b.failed, b.input_tokens,
          b.output_tokens, b.billed_credits, b.unmetered_credits, 0 as refused
        from ai.usage_between(caller.workspace_id, report_window.window_from, report_window.window_to) b
        where b.app_id = caller.app_id
        union all
        select
          r.day, coalesce(r.model_id, 'unknown'), coalesce(r.feature, 'unknown'), r.execution_mode, 0, 0, 0, 0, 0, 0, 0,
          r.refused
        from ai.refused_between(caller.workspace_id, report_window.window_from, report_window.window_to) r
        where r.app_id = caller.app_id
      ) as u
      group by u.day, u.model_id, u.feature, u.execution_mode
      having sum(u.requests) > 0 or sum(u.refused) > 0
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

-- Returns the caller of a request that a registered app sends. The credential must be an app's token or a key that is
-- bound to an app, and the request must name the workspace. The app is derived only from the credential. refused is the
-- reason why the call is refused, or null. Not granted to any role.
create or replace function ai.app_caller(call jsonb) returns ai.caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
begin
  if caller.source is null then
    caller.refused := 'invalid_api_key';
  elsif caller.source = 'session' or caller.app_id is null then
    caller.refused := 'credential_not_bound';
  elsif caller.refused is null and call ->> 'workspace' is null then
    caller.refused := 'workspace_header_required';
  end if;
  return caller;
end
$$;

-- Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns {
-- workspace_id } or { refused }.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
