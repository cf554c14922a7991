-- Every access token carries its user's metadata, which users write themselves: anybody who signs up with somebody's
-- address, before any confirmation. A token that is larger than this makes it fits no cookie of ours (6 KiB), and
-- requests with it are refused by most servers.
create function private.limit_user_metadata() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'user metadata is larger than 2400 bytes' using errcode = 'check_violation';
end
$$;
comment on function private.limit_user_metadata() is
  'Refuses metadata that would make the user''s tokens too large for a browser''s cookies.';
revoke execute on function private.limit_user_metadata() from public, anon, authenticated;

-- Users write their metadata through the API, which limits its size less than our cookies do.
create trigger limit_user_metadata before insert or update of raw_user_meta_data on auth.users
  for each row when (octet_length(new.raw_user_meta_data::text) > 2400)
  execute function private.limit_user_metadata();
