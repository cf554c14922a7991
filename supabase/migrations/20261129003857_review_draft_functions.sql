-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

-- Deletes up to at_most rows of each kind: full buckets, expired attempts, expired verified addresses, expired review
-- drafts, and blocks that ended a month ago. Returns how many rows it deleted; 0 while another deletion runs.
create or replace function private.delete_expired_attempts(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  cleared integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_expired_attempts', 0)) then
    return 0;
  end if;
  -- Skips rows locked by an attempt; the next run deletes them.
  cleared := cleared + private.delete_expired_rows('private.rate_limits', 'full_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.open_attempts', 'expires_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.verified_addresses', 'verified_until', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.review_drafts', 'expires_at', '0', at_most);
  -- Ended blocks are kept for a month, to explain to people why they could not sign in.
  return cleared + private.delete_expired_rows('private.address_blocks', 'blocked_until', '30 days', at_most);
end
$$;

-- Stores a draft for 15 minutes and returns its id. An account keeps its five newest drafts.
create or replace function private.store_review_draft(account_id uuid, review_kind text, draft_contents text)
  returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored uuid;
begin
  -- Serializes the calls of an account, so that they don't exceed its limit together.
  perform pg_advisory_xact_lock(hashtextextended('private.store_review_draft ' || account_id, 0));
  perform private.delete_expired_rows('private.review_drafts', 'expires_at', '0', 100);
  insert into private.review_drafts (user_id, kind, contents)
  values (account_id, review_kind, draft_contents)
  returning id into stored;
  delete from private.review_drafts d
  where d.id in (
    select o.id from private.review_drafts o where o.user_id = account_id order by o.created_at desc, o.id offset 5
  );
  return stored;
end
$$;

-- Returns the contents of an account's draft of one kind, or null if there is none or it has expired.
create or replace function private.read_review_draft(account_id uuid, review_kind text, draft_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select d.contents
  from private.review_drafts d
  where d.id = draft_id and d.user_id = account_id and d.kind = review_kind and d.expires_at > now()
$$;

grant execute on function private.read_review_draft(uuid, text, uuid) to service_role;

grant execute on function private.store_review_draft(uuid, text, text) to service_role;
