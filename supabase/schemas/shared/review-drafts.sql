-- Drafts of reviews: what a page shows before a change is confirmed. Kept here, because a form could send back anything.

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
