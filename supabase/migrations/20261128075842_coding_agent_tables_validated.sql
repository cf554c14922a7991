set lock_timeout = '500ms';

alter table private.apps validate constraint apps_scopes_check;
alter table private.apps validate constraint key_scope_is_for_openid_clients;
alter table ai.keys validate constraint keys_connection_id_fkey;
alter table ai.keys validate constraint agent_keys_are_short_lived;
