set lock_timeout = '500ms';

select private.protect_table(t.name)
from unnest(array[
  'private.openid_clients', 'private.signing_keys', 'private.openid_consents', 'private.authorization_codes',
  'private.device_authorizations', 'private.openid_grants', 'private.openid_tokens', 'private.logout_notices'
]::regclass[]) as t (name);
