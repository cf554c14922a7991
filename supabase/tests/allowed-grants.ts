/**
 * Everything that the roles of the API, the gateway and the identity backend may do in public, private and ai.
 * catalog.test.ts compares it with the database in both directions: it fails for an unlisted grant, and for a line here
 * without its grant.
 */
export const allowedGrants: readonly string[] = [
  "authenticated: select on public.profiles",
  "authenticated: update (avatar_url, display_name) on public.profiles",
  "authenticated: select on public.security_events",
  "authenticated: delete on public.workspace_invitations",
  "authenticated: insert (email, role_id, token_hash, workspace_id) on public.workspace_invitations",
  "authenticated: select (accepted_at, accepted_by, created_at, email, expires_at, id, invited_by, role_id, workspace_id) on public.workspace_invitations",
  "authenticated: delete on public.workspace_members",
  "authenticated: select on public.workspace_members",
  "authenticated: update (role_id) on public.workspace_members",
  "authenticated: select on public.workspace_audit_log",
  "authenticated: delete on public.workspace_roles",
  "authenticated: insert (name, permissions, workspace_id) on public.workspace_roles",
  "authenticated: select on public.workspace_roles",
  "authenticated: update (name, permissions) on public.workspace_roles",
  "authenticated: select on public.workspaces",
  "authenticated: update (name) on public.workspaces",

  "authenticated: execute on public.accept_workspace_invitation(text)",
  "authenticated: execute on public.count_role_members(uuid)",
  "authenticated: execute on public.create_workspace(text)",
  "authenticated: execute on public.delete_workspace(uuid)",
  "authenticated: execute on public.device_session_state(uuid,text)",
  "authenticated: execute on public.list_member_emails(uuid)",
  "authenticated: execute on public.list_workspace_members(uuid,text,uuid,uuid,text[],integer)",
  "authenticated: execute on public.list_workspaces(text[],integer)",
  "authenticated: execute on public.required_mfa_enforcement_version()",
  "authenticated: execute on public.session_state()",
  "authenticated: execute on public.transfer_workspace_ownership(uuid,uuid)",
  "authenticated: execute on public.workspace_invitation(text)",

  // Policies run these functions. Clients can't call them, because clients have no usage on schema private.
  "authenticated: execute on private.account_required_mfa_satisfied()",
  "authenticated: execute on private.my_assignable_role_ids()",
  "authenticated: execute on private.my_coworker_ids()",
  "authenticated: execute on private.my_owned_workspace_ids()",
  "authenticated: execute on private.my_workspace_ids()",
  "authenticated: execute on private.my_workspace_ids_with_permission(public.workspace_permission)",
  "authenticated: execute on private.my_workspace_permissions()",
  // A check constraint runs this function with the rights of the role that writes the row.
  "authenticated: execute on private.has_unique_items(public.workspace_permission[])",

  "gateway: usage on schema ai",
  "gateway: execute on ai.begin_run(jsonb)",
  "gateway: execute on ai.begin_runs(jsonb)",
  "gateway: execute on ai.check_app_caller(jsonb)",
  "gateway: execute on ai.check_credential(jsonb)",
  "gateway: execute on ai.describe_credential(jsonb)",
  "gateway: execute on ai.extend_run(jsonb)",
  "gateway: execute on ai.release_orphaned_runs(jsonb)",
  "gateway: execute on ai.import_provider_costs(jsonb)",
  "gateway: execute on ai.import_provider_invoice(jsonb)",
  "gateway: execute on ai.store_run_content(jsonb)",
  "gateway: execute on ai.list_models(jsonb)",
  "gateway: execute on ai.report_usage(jsonb)",
  "gateway: execute on ai.settle_runs(jsonb)",
  "gateway: execute on ai.heartbeat_runs(jsonb)",

  // The identity backend's hooks.
  "supabase_auth_admin: usage on schema private",
  "supabase_auth_admin: execute on private.mfa_verification_attempt(jsonb)",
  "supabase_auth_admin: execute on private.password_verification_attempt(jsonb)",
];

/**
 * Functions with `security definer` that a signed-in user can call. All except session_state and device_session_state
 * check MFA in their body. These two also answer for sessions that don't satisfy the MFA rule yet. device_session_state
 * also takes a browser's device secret, and returns the browser's accounts only if the secret is correct.
 */
export const callableDefiners: readonly string[] = [
  "public.accept_workspace_invitation(text)",
  "public.create_workspace(text)",
  "public.delete_workspace(uuid)",
  "public.device_session_state(uuid, text)",
  "public.list_member_emails(uuid)",
  "public.session_state()",
  "public.transfer_workspace_ownership(uuid, uuid)",
  "public.workspace_invitation(text)",
];

/** Foreign keys without an `on delete` action. The migration states the reason for each. */
export const foreignKeysWithoutAction: readonly string[] = ["public.workspace_members (workspace_id, role_id)"];
