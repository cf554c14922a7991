-- Ends approvals that release 0.1.0 bound. They were valid for 12 hours.
update private.login_challenges
set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null
where kind = 'mfa_mobile' and status = 'bound' and proof_key is null;
