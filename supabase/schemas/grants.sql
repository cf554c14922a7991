-- Lists every grant on schemas, tables and functions, by role. Default privileges deny everything else (see the migration
-- schemas_and_roles). Functions that are not listed here are called only by other functions.

-- Role authenticated: signed-in users, through the Data API and under row-level security. Includes the functions that
-- policies and check constraints call.

grant select on public.profiles to authenticated;
grant update (display_name, avatar_url) on public.profiles to authenticated;
grant select on public.workspaces to authenticated;
grant update (name) on public.workspaces to authenticated;
grant select on public.workspace_roles to authenticated;
grant insert (workspace_id, name, permissions, member_budget_usd) on public.workspace_roles to authenticated;
grant update (name, permissions, member_budget_usd) on public.workspace_roles to authenticated;
grant delete on public.workspace_roles to authenticated;
grant select, delete on public.workspace_members to authenticated;
grant update (role_id) on public.workspace_members to authenticated;
-- All columns except token_hash, which users may write but not read.
grant select (
  id, workspace_id, email, role_id, invited_by, accepted_by, created_at, expires_at, accepted_at
) on public.workspace_invitations to authenticated;
grant insert (workspace_id, email, role_id, token_hash) on public.workspace_invitations to authenticated;
grant delete on public.workspace_invitations to authenticated;
grant select on public.security_events to authenticated;
grant select on public.workspace_audit_log to authenticated;

-- Policies run the functions in private. Users can't call them, because they have no usage on the schema.

-- Functions of shared/.
grant execute on function
  private.account_required_mfa_satisfied(),
  public.required_mfa_enforcement_version()
to authenticated;

-- Functions of sessions/.
grant execute on function
  public.session_state(),
  public.device_session_state(uuid, text)
to authenticated;

-- Functions of workspaces/.
grant execute on function
  private.my_workspace_ids(),
  private.my_workspace_ids_with_permission(public.workspace_permission),
  private.my_owned_workspace_ids(),
  private.my_coworker_ids(),
  private.my_assignable_role_ids(),
  private.my_workspace_permissions(),
  -- Check constraints run with the rights of the role that writes the row.
  private.has_unique_items(public.workspace_permission[]),
  public.create_workspace(text),
  public.workspace_invitation(text),
  public.accept_workspace_invitation(text),
  public.list_workspaces(text[], integer),
  public.list_workspace_members(uuid, text, uuid, uuid, text[], integer),
  public.list_member_emails(uuid),
  public.list_workspace_roles(uuid),
  public.remove_workspace_member(uuid, uuid, uuid[]),
  public.transfer_workspace_ownership(uuid, uuid),
  public.delete_workspace(uuid)
to authenticated;

-- Functions of studio/.
grant execute on function
  public.read_credit_notice(uuid),
  public.read_workspace(uuid, boolean),
  public.uses_cost_book(uuid),
  public.workspace_session_state(uuid, boolean, uuid, text)
to authenticated;

-- Role gateway: the functions that the gateway calls.

grant usage on schema ai to gateway;

-- Functions of gateway/.
grant execute on function
  ai.begin_runs(jsonb),
  ai.release_orphaned_runs(jsonb),
  ai.extend_run(jsonb),
  ai.settle_runs(jsonb),
  ai.heartbeat_runs(jsonb),
  ai.check_credential(jsonb),
  ai.list_models(jsonb),
  ai.describe_credential(jsonb),
  ai.report_usage(jsonb),
  ai.check_app_caller(jsonb),
  ai.record_refused_calls(jsonb),
  ai.read_envelopes(jsonb),
  ai.read_own_envelope(jsonb),
  ai.take_provider_calls(jsonb),
  ai.report_routes(jsonb)
to gateway;

-- Functions of studio/.
grant execute on function
  ai.store_run_content(jsonb)
to gateway;

-- Functions of finance/.
grant execute on function
  ai.import_provider_costs(jsonb),
  ai.import_provider_invoice(jsonb)
to gateway;

-- Role supabase_auth_admin: the functions that Supabase Auth calls as hooks.

grant usage on schema private to supabase_auth_admin;

-- Functions of abuse/.
grant execute on function
  private.password_verification_attempt(jsonb),
  private.mfa_verification_attempt(jsonb)
to supabase_auth_admin;

-- Role service_role: our server, which uses the Data API with its secret key.

grant usage on schema private, ai to service_role;

-- Append-only, even for the service role.
revoke update, delete, truncate on public.security_events from service_role;
-- Append-only, even for the service role.
revoke update, delete on
  private.admin_audit_log,
  private.recovery_events
from service_role;
revoke insert, update, delete on
  private.console_notices,
  private.platform_settings,
  private.account_invitations,
  private.account_deletions,
  -- Only definer functions may write keys.
  ai.keys,
  -- The server reads balances. Only definer functions may change them.
  ai.credit_accounts,
  ai.credit_ledger,
  ai.runs,
  ai.run_content,
  ai.failed_attempts,
  ai.key_approval_requests,
  ai.agent_access,
  private.service_accounts,
  private.service_account_credentials,
  ai.agent_connections,
  ai.external_provider_costs,
  ai.external_provider_invoices,
  ai.invoice_documents,
  ai.cost_imports,
  ai.cost_services,
  ai.generation_costs,
  ai.book_statements,
  ai.usage_days,
  ai.usage_hours,
  ai.gateway_provider_keys,
  ai.cost_book_entries,
  ai.invoice_book_entries,
  ai.long_running_runs,
  ai.sweep_progress,
  ai.usage_daily,
  ai.usage_labels_daily,
  ai.usage_changes,
  ai.usage_progress,
  ai.totals,
  ai.hourly_totals,
  ai.envelopes,
  ai.output_histories,
  ai.refused_calls,
  ai.refused_daily,
  ai.route_health,
  ai.provider_outages,
  ai.budget_alerts,
  ai.credit_references,
  ai.credit_alerts
from service_role;
-- Append-only, even for the service role.
revoke insert, update, delete, truncate on public.workspace_audit_log from service_role;

-- Functions of shared/.
grant execute on function
  private.end_account_session(uuid, uuid),
  private.cancel_email_change(uuid),
  private.store_review_draft(uuid, text, text),
  private.read_review_draft(uuid, text, uuid),
  public.required_mfa_enforcement_version(),
  private.last_admin_action(text),
  private.record_admin_action(jsonb, jsonb),
  private.delete_expired_rows(regclass, name, interval, integer),
  private.uuid_or_null(text),
  private.is_infrastructure_admin(uuid),
  private.console_role(uuid),
  private.may_change_console(jsonb, text),
  private.service_account_may(uuid, text),
  private.live_service_accounts(uuid),
  private.is_responsible(jsonb, uuid)
to service_role;

-- Functions of operations/.
grant execute on function
  private.describe_database(),
  private.measure_deployment()
to service_role;

-- Functions of usage/.
grant execute on function
  ai.roll_up_usage(integer),
  private.read_usual_day(timestamptz)
to service_role;

-- Functions of abuse/.
grant execute on function
  private.begin_attempt(jsonb),
  private.complete_attempt(uuid, text),
  private.count_admin_request(uuid),
  private.delete_expired_attempts(integer),
  private.is_override_active(private.recovery_overrides),
  private.active_recovery_override(text)
to service_role;

-- Functions of activity/.
grant execute on function
  private.record_security_event(jsonb),
  private.announce_addition(uuid, text),
  private.claim_due_mails(integer),
  private.discard_session(uuid, uuid)
to service_role;

-- Functions of apps/.
grant execute on function
  private.list_apps(text, text, integer),
  private.linked_workspaces(uuid, text[], integer),
  private.find_app_by_origin(text),
  -- Check constraints run with the rights of the role that writes the row.
  private.is_loopback_origin(text),
  private.register_app,
  private.rotate_app_secret,
  private.set_app_enabled,
  private.set_app_workspace,
  private.record_app_change(private.apps, text, text, uuid),
  private.required_mfa_proof(jsonb, text, integer),
  private.sweep_app_credentials(integer),
  private.claim_logout_notices(integer),
  private.withdraw_logout(uuid)
to service_role;

-- Functions of machines/.
grant execute on function
  private.may_manage_service_accounts(uuid, uuid, text[]),
  private.save_service_account(jsonb),
  private.rotate_service_secret(jsonb),
  private.add_service_key(jsonb),
  private.remove_service_credential(jsonb),
  private.revoke_service_account(jsonb),
  private.list_service_accounts(uuid, text[], integer),
  private.read_service_account(uuid, uuid),
  private.service_account_of_client(text),
  private.service_account_keys(text),
  private.issue_service_token(jsonb),
  private.revoke_service_token(jsonb),
  private.read_service_caller(bytea, inet)
to service_role;

-- Functions of sessions/.
grant execute on function
  private.device_state(uuid, text),
  private.device_secret_status(private.account_devices, text),
  private.is_vault_entry_usable(private.account_vault_entries),
  private.vault_entry_view(private.account_vault_entries),
  private.secret_hash(text),
  private.lock_accounts(uuid[]),
  private.sweep_account_devices(),
  private.open_account_device(uuid, text),
  private.confirm_device_secret(uuid, text),
  private.sign_in_account(jsonb),
  private.add_account(jsonb),
  private.take_additions(uuid, text, text[]),
  private.continue_account_session(jsonb),
  private.store_account_session(jsonb),
  private.discard_account_session(uuid, uuid, text, boolean),
  private.begin_account_switch(uuid, text, uuid, uuid),
  private.activate_account(jsonb),
  private.end_account_switch(uuid, uuid),
  private.sign_out_account(uuid, text, uuid),
  private.sign_out_device(uuid, text),
  private.require_password_replacement(uuid, uuid)
to service_role;

-- Functions of sign-in/.
grant execute on function
  private.list_sign_in_methods(uuid),
  private.unlink_identity(uuid, uuid, text[]),
  private.list_passkeys(uuid),
  private.passkey_exists(text),
  private.delete_passkey(uuid, uuid, uuid, text[]),
  private.begin_oauth_attempt(jsonb),
  private.inspect_oauth_attempt(text, text, text),
  private.complete_oauth_attempt(text, text, text, text),
  private.sweep_oauth_attempts(integer),
  private.begin_login_challenge(jsonb),
  private.read_login_challenge(jsonb),
  private.login_challenge_state(private.login_challenges),
  private.sweep_login_challenges(integer),
  private.read_qr_request(jsonb),
  private.decide_qr_challenge(jsonb),
  private.claim_qr_challenge(jsonb),
  private.release_qr_challenge(uuid),
  private.complete_qr_challenge(jsonb),
  private.take_mint_lease(uuid),
  private.release_mint_lease(uuid)
to service_role;

-- Functions of workspaces/.
grant execute on function
  -- Check constraints run with the rights of the role that writes the row.
  private.has_unique_items(public.workspace_permission[])
to service_role;

-- Functions of openid/.
grant execute on function
  private.open_openid_authorization(text, text, text[], jsonb, text[], text[], text),
  private.store_authorization_request(text, text, bytea, inet),
  private.push_authorization_request(text, bytea, text, boolean, text, bytea, inet),
  private.read_authorization_request(bytea),
  private.end_authorization_request(bytea),
  private.issue_authorization_code(
    jsonb, text, text, text[], text, text, bytea, boolean, bigint, text[], text[], text[], bytea, text
  ),
  private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea, text),
  private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea, text),
  private.read_openid_userinfo(bytea),
  private.introspect_openid_token(text, bytea, bytea),
  private.revoke_openid_token(text, bytea, bytea),
  private.read_openid_logout(text, text, uuid, uuid),
  private.end_openid_login(uuid, uuid),
  private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text),
  private.read_device_authorization(text, uuid),
  private.find_device_authorization(text, uuid, uuid),
  private.decide_device_authorization(text, jsonb, boolean, jsonb),
  private.redeem_device_code(text, bytea, bytea, bytea, bytea),
  private.describe_openid_client(uuid),
  private.read_openid_client(text),
  private.list_openid_clients(text, text, integer),
  private.add_openid_client(jsonb),
  private.change_openid_client(jsonb),
  private.openid_client_id(uuid),
  private.save_self_registered_client(jsonb),
  private.set_app_resource_url(text, text, text, uuid),
  private.set_app_logout_url(text, text, text, uuid),
  private.may_change_apps(jsonb),
  private.app_version(text),
  private.read_signing_keys(),
  private.current_signing_key(),
  private.replace_signing_key(text, jsonb, text, text, text),
  private.signing_key_is_due(),
  private.add_next_signing_key(text, jsonb, text, text),
  private.reseal_signing_key(text, text, text, text),
  private.delete_retired_signing_keys()
to service_role;

-- Functions of satellites/.
grant execute on function
  private.mint_cross_app_token(bytea, jsonb, text),
  private.cross_app_token_proof(text, bytea, bytea),
  private.preview_handoff(uuid),
  private.revoke_cross_app_tokens(uuid),
  private.redeem_cross_app_token,
  private.introspect_app_session(text, bytea, bytea),
  private.refresh_app_session(text, bytea, bytea, bytea),
  private.list_workspaces_by_app_session(bytea, text[], integer),
  private.read_workspace_by_app_session(bytea, uuid),
  private.can_rename_by_app_session(bytea, uuid),
  private.rename_workspace_by_app_session(bytea, uuid, text),
  private.exchange_cross_app_token,
  private.refresh_app_token,
  private.revoke_app_credential(text, bytea, bytea)
to service_role;

-- Functions of keys/.
grant execute on function
  ai.list_agent_access(uuid, uuid),
  ai.answer_agent_access(uuid, uuid, uuid, timestamptz, text),
  private.list_agents(bytea, uuid),
  private.connect_agent(bytea, uuid, text, text, jsonb, jsonb),
  private.issue_agent_key(bytea, uuid, uuid, text, text),
  private.disconnect_agent(bytea, uuid, uuid)
to service_role;

-- Functions of gateway/.
grant execute on function
  -- Generated columns are computed with the rights of the role that writes the row.
  ai.price_tier,
  ai.listed_price(jsonb),
  ai.sweep_runs(),
  ai.delete_expired(integer),
  ai.model_order(ai.models),
  ai.open_routes(text[]),
  ai.priced_routes(text, text[], jsonb),
  ai.bucket_size(bigint),
  ai.bucket_level(timestamptz, bigint),
  ai.microseconds_until(timestamptz, timestamptz)
to service_role;

-- Functions of accounts/.
grant execute on function
  private.pending_email_change(uuid),
  private.email_change_of_link(text),
  private.email_of_link(text, text),
  private.find_mailed_link(text, text, uuid),
  private.remove_unproven_password(text, text),
  private.name_new_account(uuid, text),
  private.account_access(uuid, uuid, integer),
  private.access_state(uuid, uuid),
  private.confirm_access(uuid, uuid, jsonb, text[]),
  private.may_review_authenticators(uuid, uuid),
  private.export_account(uuid, boolean),
  private.export_account_part(uuid, text, jsonb, integer),
  private.export_account_runs(uuid, jsonb, integer),
  private.delete_account(uuid, text),
  private.read_sign_up(uuid, text),
  private.admit_imported_account(text),
  private.list_account_deletion_blockers(uuid),
  private.account_sessions(uuid, uuid, jsonb, integer),
  private.count_account_sessions(uuid, integer),
  private.end_other_sessions(uuid, uuid),
  private.sign_out_everywhere(uuid, uuid),
  private.connected_apps(uuid),
  private.disconnect_app(uuid, text, jsonb),
  private.app_was_ever_connected(uuid, text)
to service_role;

-- Functions of recovery/.
grant execute on function
  private.create_recovery_override(jsonb),
  private.revoke_recovery_override(jsonb),
  private.mark_override_used(uuid),
  private.record_recovery_event(jsonb),
  private.sweep_recoveries(integer),
  private.issue_recovery_credential(jsonb),
  private.invalidate_recovery_credential(uuid),
  private.find_recovery_link_email(bytea, bytea),
  private.recovery_code_salt(text, bytea),
  private.consume_recovery_credential(jsonb),
  private.release_recovery_credential(uuid),
  private.is_recovery_open_to(private.recovery_credentials, bytea),
  private.allow_recovery_repeat(uuid, bytea, uuid, boolean),
  private.verify_override_password(jsonb),
  private.recovery_overview(text)
to service_role;

-- Functions of mfa/.
grant execute on function
  private.change_required_mfa(jsonb),
  private.required_mfa_of(uuid),
  private.account_authenticators(uuid),
  private.delete_authenticator(uuid, uuid, uuid, jsonb),
  private.claim_mfa_code(text, uuid),
  private.release_mfa_code(text, uuid, boolean),
  private.replace_mfa_recovery_codes(uuid, text[]),
  private.sign_in_with_recovery_code(jsonb),
  private.mfa_recovery_state(uuid, uuid),
  private.read_security_page(uuid, uuid, jsonb, integer),
  private.begin_mfa_recovery(uuid, uuid, text),
  private.end_mfa_recovery(uuid, boolean),
  private.pending_mobile_approvals(jsonb),
  private.decide_mobile_approval(jsonb),
  private.bind_mobile_approval(jsonb),
  private.session_second_factor(jsonb)
to service_role;

-- Functions of studio/.
grant execute on function
  ai.list_keys(uuid, uuid, jsonb, integer, boolean),
  ai.list_keys_of_creator(uuid, uuid, uuid, integer),
  ai.read_key(uuid, uuid, uuid),
  ai.issue_key(uuid, uuid, jsonb, text, text),
  ai.change_key(uuid, uuid, uuid, jsonb, text),
  ai.rotate_key(uuid, uuid, uuid, integer, text, text),
  ai.revoke_key(uuid, uuid, uuid),
  ai.read_key_approval(uuid, uuid),
  ai.request_key_approval(uuid, uuid, text, jsonb),
  ai.withdraw_key_approval_request(uuid, uuid, timestamptz),
  ai.key_summary(ai.keys, numeric),
  ai.read_workspace_policy(uuid, uuid),
  ai.change_workspace_policy(uuid, uuid, jsonb),
  ai.read_policy_options(uuid, uuid),
  ai.list_envelopes(uuid, uuid, text[], jsonb, integer, boolean),
  ai.read_envelopes_page(uuid, uuid, text[], jsonb, jsonb, integer, boolean),
  ai.read_envelope(uuid, uuid, uuid),
  ai.change_envelope(uuid, uuid, uuid, jsonb, text, boolean),
  ai.open_envelope_for_member(uuid, uuid, uuid, text, jsonb),
  ai.read_budgets(uuid, uuid, text[], integer, text[], boolean, boolean),
  ai.change_budget(
    uuid, uuid, text, uuid, text, text, text, text, text, smallint[], bigint, text, smallint[], bigint,
    boolean, boolean
  ),
  ai.sweep_budget_alerts(integer, boolean),
  ai.queue_budget_alert_mails(jsonb, text, text),
  ai.sweep_credit_alerts(integer),
  ai.queue_credit_alert_mails(jsonb, text, text),
  ai.read_credit_notice(uuid, uuid),
  ai.read_workspace_home(
    uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, integer, integer, integer, text[], boolean
  ),
  ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer, text),
  ai.read_run_page(uuid, uuid, uuid, jsonb, text, integer),
  ai.read_keys_page(uuid, uuid, jsonb, integer, boolean),
  ai.read_policy_page(uuid, uuid),
  -- The console's functions call these with the rights of the service role.
  ai.low_credits(ai.plans),
  ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer, text),
  ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer, text),
  ai.read_run(uuid, uuid, uuid, jsonb, text, integer),
  ai.list_refused_calls(uuid, uuid, jsonb, jsonb, integer, integer),
  ai.read_refused_call(uuid, uuid, uuid),
  ai.find_run(uuid),
  ai.time_of_id(uuid),
  ai.list_run_filters(uuid, uuid),
  ai.run_summary(ai.runs, boolean),
  ai.has_provider_call(jsonb),
  ai.charged_routes(jsonb, smallint, jsonb),
  ai.run_detail(ai.runs, boolean),
  ai.describe_run_content(uuid, uuid, uuid),
  ai.read_run_content(uuid, uuid, uuid),
  ai.delete_expired_content(integer),
  ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer),
  ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer),
  ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean),
  ai.read_credit_statement(uuid, uuid, text)
to service_role;

-- Functions of finance/.
grant execute on function
  ai.preview_cost_import(uuid, uuid, uuid, jsonb),
  ai.import_cost_file(uuid, uuid, uuid, jsonb, text, jsonb),
  ai.read_cost_import(uuid, uuid, uuid),
  ai.list_cost_services(uuid, uuid, uuid[]),
  private.preview_costs_as_operator(uuid, uuid, jsonb),
  private.import_costs_as_operator(uuid, uuid, jsonb, text),
  private.claim_cost_import(text),
  private.store_imported_costs(text, uuid, date, date, jsonb),
  private.finish_cost_import(text, uuid, text, boolean, integer),
  private.read_cost_importers(),
  private.request_cost_import(jsonb),
  private.confirm_missed_days(jsonb),
  ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean, bytea),
  ai.record_provider_invoice(uuid, uuid, uuid, jsonb, jsonb),
  ai.review_provider_invoice(uuid, uuid, uuid, jsonb),
  ai.read_provider_invoice(uuid, uuid, uuid),
  ai.find_import_rate(uuid, uuid, uuid, jsonb),
  ai.attach_invoice_document(uuid, uuid, uuid, text, text, jsonb),
  ai.read_invoice_document(uuid, uuid, uuid),
  ai.list_linked_apps(uuid, uuid),
  ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb, bytea),
  ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer, bytea),
  ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer),
  private.explain_platform_month(date, text),
  private.list_spending(text, date, date, text, boolean, jsonb, integer),
  private.store_usage_hours(text, date, jsonb, jsonb),
  private.mark_gateway_key(text, text, boolean, jsonb),
  private.compare_usage_hours(uuid, text, date, timestamptz, text, integer, integer),
  ai.read_close_checklist(uuid, uuid, text),
  ai.close_month(uuid, uuid, text, text, jsonb, jsonb),
  ai.reopen_month(uuid, uuid, uuid, jsonb),
  ai.list_statements(uuid, uuid, text, text[], integer),
  ai.read_statement(uuid, uuid, uuid, boolean),
  ai.list_unmatched_generations(uuid, uuid, date, timestamptz, integer),
  ai.store_generation_costs(uuid, uuid, date, jsonb, jsonb),
  ai.read_generation_costs(uuid, uuid, date, integer, integer)
to service_role;

-- Functions of console/.
grant execute on function
  private.set_console_role(text, text, text),
  private.service_accounts_of_person(text),
  private.record_provider_test(jsonb),
  private.list_console_people(),
  private.set_infrastructure_admin(text, boolean, text),
  private.list_infrastructure_admins(),
  private.search_accounts(text, integer),
  private.list_accounts(jsonb, integer),
  private.sign_account_out(jsonb),
  private.ban_account(jsonb),
  private.unban_account(jsonb),
  private.request_account_deletion(jsonb),
  private.cancel_account_deletion(jsonb),
  private.delete_due_accounts(),
  private.invite_account(jsonb),
  private.revoke_account_invitation(jsonb),
  private.list_account_invitations(jsonb, integer),
  private.read_account_invitation(uuid),
  private.read_platform_settings(),
  private.set_sign_up(jsonb),
  private.list_address_blocks(inet, uuid, integer),
  private.read_address_block(uuid),
  private.lift_address_block(jsonb),
  private.unblock_address(text, inet, text),
  private.end_address_block(private.address_blocks, jsonb),
  private.account_overview(uuid),
  private.account_timeline(uuid, jsonb, integer),
  private.search_audit_log(jsonb, jsonb, jsonb, integer, uuid),
  private.search_workspaces(text, integer),
  private.set_key_approval(jsonb),
  private.decline_key_approval(jsonb),
  private.list_approval_requests(jsonb, integer),
  private.count_approval_requests(integer),
  private.read_attention(text[], boolean),
  private.read_overview(text[]),
  private.add_app(jsonb),
  private.change_app(jsonb),
  private.read_app(text, text[], integer),
  private.describe_app(uuid),
  private.find_runs(text),
  private.read_run(uuid),
  private.list_provider_routes(text[], integer),
  private.list_provider_limits(text),
  private.provider_limit_version(ai.provider_limits),
  private.save_provider_limit(jsonb),
  private.read_providers_page(text[], integer, date, date),
  private.read_providers_state(text[], integer, date, date),
  private.list_route_states(integer),
  private.read_accounts_page(text, jsonb, integer),
  private.read_workspaces_page(text, integer),
  private.read_approvals_page(jsonb, integer),
  private.read_apps_page(text, text, text, integer),
  private.read_subject(uuid),
  private.read_account_page(uuid, jsonb, integer, integer),
  private.list_failing_models(integer),
  private.list_provider_health(),
  private.list_skipped_routes(integer),
  private.list_provider_usage(date, date),
  private.count_provider_trouble(),
  private.read_provider_trouble(),
  ai.record_provider_outages(),
  ai.sweep_outage_mails(integer),
  ai.queue_outage_mails(jsonb, text, text),
  private.is_emailed_about_outages(uuid),
  private.set_outage_mails(jsonb),
  private.list_catalogue_models(text, text, text[], integer),
  private.read_model(text),
  private.model_version(text),
  private.was_never_enabled(ai.models),
  private.granted_workspaces(text, integer),
  private.save_model(jsonb),
  private.set_model_enabled(jsonb),
  private.delete_model(jsonb),
  private.route_columns(jsonb),
  private.change_model_route(jsonb),
  private.set_model_grant(jsonb),
  private.describe_price(ai.model_prices),
  private.latest_price(text, text, integer),
  private.list_route_prices(),
  private.add_model_price(jsonb),
  private.cancel_model_price(jsonb),
  private.add_proposed_prices(jsonb),
  private.save_model_setup(jsonb),
  private.apply_model_settings(jsonb, jsonb),
  private.apply_model_routes(jsonb, jsonb),
  private.apply_model_prices(jsonb, jsonb),
  private.apply_model_plans(jsonb, jsonb),
  private.read_credit_account(text, uuid, bigint, integer),
  private.change_credits(jsonb),
  private.list_plans(text),
  private.save_plan(jsonb),
  private.export_platform(uuid[]),
  private.set_workspace_policy(jsonb),
  private.set_workspace_budget(jsonb),
  private.read_console_workspace(uuid),
  private.move_workspace(jsonb),
  private.change_once(text, jsonb),
  private.make_console_change(text, jsonb)
to service_role;
