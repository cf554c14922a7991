set lock_timeout = '500ms';

select private.protect_table('private.openid_clients');
select private.protect_table('private.signing_keys');
select private.protect_table('private.openid_consents');
select private.protect_table('private.authorization_codes');
select private.protect_table('private.device_authorizations');
select private.protect_table('private.openid_grants');
select private.protect_table('private.openid_tokens');
select private.protect_table('private.logout_notices');
