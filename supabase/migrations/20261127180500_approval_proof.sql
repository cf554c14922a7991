set lock_timeout = '500ms';

alter table private.login_challenges add column proof_key bytea check (octet_length(proof_key) = 32);
comment on column private.login_challenges.proof_key is
  'Key of the proofs that our server sends for a browser that shows the cookie of a bound approval. Null for approvals that '
  'release 0.1.0 bound, which count without a proof.';
