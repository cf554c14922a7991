-- Policies and triggers, and the partitions of ai.runs.

create policy select_own on public.profiles
  for select to authenticated using (id = (select auth.uid()));
create policy update_own on public.profiles
  for update to authenticated using (id = (select auth.uid())) with check (id = (select auth.uid()));
-- Its name sorts after select_own, which is cheaper and so is asked first.
create policy select_shared_workspace on public.profiles
  for select to authenticated using (id in (select private.my_coworker_ids()));

create policy select_as_member on public.workspaces
  for select to authenticated using (id in (select private.my_workspace_ids()));
create policy update_with_permission on public.workspaces
  for update to authenticated
  using (id in (select private.my_workspace_ids_with_permission('manage_workspace_settings')))
  with check (id in (select private.my_workspace_ids_with_permission('manage_workspace_settings')));

create policy select_as_member on public.workspace_roles
  for select to authenticated using (workspace_id in (select private.my_workspace_ids()));
create policy insert_with_permission on public.workspace_roles
  for insert to authenticated
  with check (
    not is_owner
    and exists (
      select from (select * from private.my_workspace_permissions()) as mine
      where mine.workspace_id = workspace_roles.workspace_id
        and 'manage_members' = any (mine.permissions)
        and workspace_roles.permissions <@ mine.permissions
    )
  );
create policy update_with_permission on public.workspace_roles
  for update to authenticated
  using (not is_owner and id in (select private.my_assignable_role_ids()))
  with check (
    not is_owner
    and exists (
      select from (select * from private.my_workspace_permissions()) as mine
      where mine.workspace_id = workspace_roles.workspace_id and workspace_roles.permissions <@ mine.permissions
    )
  );
create policy delete_with_permission on public.workspace_roles
  for delete to authenticated using (not is_owner and id in (select private.my_assignable_role_ids()));

create policy select_as_member on public.workspace_members
  for select to authenticated using (workspace_id in (select private.my_workspace_ids()));
create policy update_with_permission on public.workspace_members
  for update to authenticated
  using (role_id in (select private.my_assignable_role_ids()))
  with check (role_id in (select private.my_assignable_role_ids()));
create policy delete_with_permission on public.workspace_members
  for delete to authenticated using (role_id in (select private.my_assignable_role_ids()));
create policy delete_own on public.workspace_members
  for delete to authenticated using (user_id = (select auth.uid()));

create policy select_with_permission on public.workspace_invitations
  for select to authenticated
  using (workspace_id in (select private.my_workspace_ids_with_permission('manage_members')));
create policy insert_with_permission on public.workspace_invitations
  for insert to authenticated
  with check (invited_by = (select auth.uid()) and role_id in (select private.my_assignable_role_ids()));
create policy delete_with_permission on public.workspace_invitations
  for delete to authenticated using (role_id in (select private.my_assignable_role_ids()));

create policy select_own on public.security_events
  for select to authenticated using (user_id = (select auth.uid()));

create policy select_as_owner on public.workspace_audit_log
  for select to authenticated using (workspace_id in (select private.my_owned_workspace_ids()));

create or replace trigger set_updated_at before update on public.profiles
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on public.profiles is 'The time of a change is the database''s, not the caller''s.';
create or replace trigger close_orphaned_workspaces before delete on public.profiles
  for each row execute function private.close_orphaned_workspaces();
comment on trigger close_orphaned_workspaces on public.profiles is 'Before, while the memberships that name them still stand.';

create or replace trigger set_updated_at before update on public.workspaces
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on public.workspaces is 'The time of a change is the database''s, not the caller''s.';
create or replace trigger create_workspace_defaults after insert on public.workspaces
  for each row execute function private.create_workspace_defaults();
comment on trigger create_workspace_defaults on public.workspaces is 'A workspace without roles could have no members.';
create or replace trigger audit_change after insert or update on public.workspaces
  for each row execute function private.log_workspace_row();
comment on trigger audit_change on public.workspaces is 'Owners read what happened to their workspace.';

create or replace trigger require_workspace_owner after update of role_id or delete on public.workspace_members
  for each row execute function private.require_workspace_owner();
comment on trigger require_workspace_owner on public.workspace_members is
  'Nobody could ever be made owner of an ownerless one.';
create or replace trigger audit_change after insert or update of role_id or delete on public.workspace_members
  for each row execute function private.log_workspace_row();
comment on trigger audit_change on public.workspace_members is 'Owners read who came, who went and who became what.';

-- Sign-up, invitation, OAuth and the console all create users here. (Only the table's owner may comment on a trigger.)
create or replace trigger create_profile_and_workspace after insert on auth.users
  for each row execute function private.create_profile_and_workspace();
-- Users are also deleted by the API and by hand, so their order is enforced on the table.
create or replace trigger serialize_account_deletions before delete on auth.users
  for each statement execute function private.serialize_account_deletions();
-- Users write their metadata through the API, which limits its size less than our cookies do.
create or replace trigger limit_user_metadata before insert or update of raw_user_meta_data on auth.users
  for each row when (octet_length(new.raw_user_meta_data::text) > 2400)
  execute function private.limit_user_metadata();
-- Passwords change, and accounts are banned or deleted, through the API as well.
create or replace trigger end_app_credentials after update of encrypted_password, banned_until, deleted_at on auth.users
  for each row
  when (
    old.encrypted_password is distinct from new.encrypted_password
    or (old.banned_until is distinct from new.banned_until and new.banned_until > now())
    or (old.deleted_at is null and new.deleted_at is not null)
  )
  execute function private.revoke_user_app_credentials();

create or replace trigger reject_price_change before update on ai.model_prices
  for each row execute function ai.reject_price_change();

create or replace trigger has_one_owner after insert or update of workspace_id, user_id on ai.credit_accounts
  for each row when (num_nonnulls(new.workspace_id, new.user_id) <> 1) execute function ai.reject_credit_account_change();
comment on trigger has_one_owner on ai.credit_accounts is 'Does not run for updates of balance or reservation.';
create or replace trigger reject_credit_account_change before delete on ai.credit_accounts
  for each row execute function ai.reject_credit_account_change();
comment on trigger reject_credit_account_change on ai.credit_accounts is
  'Replaces the foreign key of the ledger, which would cost every settlement a lookup.';

create or replace trigger reject_incomplete_ledger_entry after insert on ai.credit_ledger
  for each row when (new.run_id is null or new.run_created_at is null) execute function ai.reject_incomplete_ledger_entry();
comment on trigger reject_incomplete_ledger_entry on ai.credit_ledger is
  'Replaces a check constraint; entries of settlements never meet its condition.';
create or replace trigger reject_ledger_change before update or delete on ai.credit_ledger
  for each row execute function ai.reject_ledger_change();
comment on trigger reject_ledger_change on ai.credit_ledger is 'The ledger is append-only, also for its owner.';

create or replace trigger reject_incomplete_settlement after update of status on ai.runs
  for each row when (new.settled_at is null or new.usage_source is null) execute function ai.reject_incomplete_settlement();
comment on trigger reject_incomplete_settlement on ai.runs is 'Runs of a settlement never meet its condition.';
create or replace trigger record_usage_change after update on ai.runs
  for each row when (new.created_at < date_trunc('day', now(), 'UTC')) execute function ai.record_usage_change();
comment on trigger record_usage_change on ai.runs is 'A run of a day that is over was settled.';
create or replace trigger record_usage_addition after insert on ai.runs
  for each row when (new.created_at <> now()) execute function ai.record_usage_change();
comment on trigger record_usage_addition on ai.runs is
  'For the operator''s hand: whatever begins by ours begins now, which its condition says in fewest words, since each '
  'statement reads it anew.';
create or replace trigger record_usage_deletion after delete on ai.runs
  for each row when (old.created_at < date_trunc('day', now(), 'UTC')) execute function ai.record_usage_change();
comment on trigger record_usage_deletion on ai.runs is 'For the operator''s hand: nothing of ours deletes runs.';

-- Auth links identities during the OAuth callback, before our server sees the browser again.
create or replace trigger record_unconfirmed_identity after insert on auth.identities
  for each row execute function private.record_unconfirmed_identity();

create or replace trigger set_updated_at before update on private.apps
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on private.apps is 'The time of a change is the database''s, not the caller''s.';
create or replace trigger revoke_app_credentials after update of enabled on private.apps
  for each row when (old.enabled and not new.enabled)
  execute function private.revoke_app_credentials();
comment on trigger revoke_app_credentials on private.apps is 'A disabled app is removed as far as its credentials go.';

create or replace trigger audit_change after update or delete on public.workspace_roles
  for each row execute function private.log_workspace_row();
comment on trigger audit_change on public.workspace_roles is 'Owners read what a role allows since when.';
-- Only what people define: the roles that a workspace is founded with are part of its founding, which is logged.
create or replace trigger audit_definition after insert on public.workspace_roles
  for each row when (pg_trigger_depth() = 0) execute function private.log_workspace_row();
comment on trigger audit_definition on public.workspace_roles is 'Owners read who defined which role, and what it allows.';
create or replace trigger limit_roles after insert on public.workspace_roles
  referencing new table as inserted for each statement execute function private.limit_workspace_roles();
comment on trigger limit_roles on public.workspace_roles is 'Pages read all roles of a workspace at once.';

create or replace trigger audit_change after insert or update of accepted_at or delete on public.workspace_invitations
  for each row execute function private.log_workspace_row();
comment on trigger audit_change on public.workspace_invitations is 'Owners read who was invited.';
create or replace trigger limit_invitations after insert on public.workspace_invitations
  referencing new table as inserted for each statement execute function private.limit_workspace_invitations();
comment on trigger limit_invitations on public.workspace_invitations is
  'Pages read all open invitations of a workspace at once.';
create or replace trigger replace_invitation before insert on public.workspace_invitations
  for each row execute function private.replace_invitation();
comment on trigger replace_invitation on public.workspace_invitations is 'Only the newest mail works.';
create or replace trigger limit_inviter after insert on public.workspace_invitations
  for each row when (new.invited_by is not null) execute function private.limit_inviter();
comment on trigger limit_inviter on public.workspace_invitations is 'Strangers are not to be mailed in bulk.';

select ai.protect_partition('ai.runs_default');
select ai.create_run_partitions();
