-- Lists and lifts address blocks, which affect networks with too many failed attempts.

-- Returns address blocks in the format of private.describe_address_block. For an address, returns all blocks of its
-- network in the last 30 days. For an account, returns the active blocks of its recent networks. Otherwise returns all
-- active blocks.
-- Definer: sessions and admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_address_blocks(
  of_address inet default null,
  subject_id uuid default null,
  page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  networks cidr[] := case
    when of_address is not null then array[private.address_network(of_address)]
    when subject_id is not null then private.recent_networks(subject_id)
  end;
begin
  return (
    select coalesce(jsonb_agg(private.describe_address_block(b) order by b.blocked_until desc, b.id), '[]')
    from (
      select *
      from private.address_blocks l
      where (networks is null or l.address = any (networks))
        -- A search for an address also returns past blocks.
        and (of_address is not null or (l.blocked_until > now() and l.lifted_at is null))
      order by l.blocked_until desc, l.id
      limit page_size
    ) b
  );
end
$$;

-- Returns a block in the format of private.describe_address_block; null if the block doesn't exist.
-- Definer: see private.list_address_blocks.
create or replace function private.read_address_block(block_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_address_block(b) from private.address_blocks b where b.id = block_id
$$;

-- Returns a block for the console: { id, address, action, level, blockedAt, blockedUntil, active, liftedAt, liftedBy,
-- liftReason }.
create or replace function private.describe_address_block(block private.address_blocks) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', block.id,
    -- Cast to inet to drop the mask of a single address.
    'address', block.address::inet,
    'action', block.action,
    'level', block.level,
    'blockedAt', block.blocked_at,
    'blockedUntil', block.blocked_until,
    'active', block.lifted_at is null and block.blocked_until > now(),
    'liftedAt', block.lifted_at,
    'liftedBy', (select u.email from auth.users u where u.id = block.lifted_by),
    'liftReason', block.lift_reason
  )
$$;

-- Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found
-- | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail, at } },
-- where last describes the latest change that an admin made to the address. Rate limits still apply, and a lifted block
-- does not lengthen the next one.
create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  block private.address_blocks;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if block.lifted_at is not null then
    return jsonb_build_object(
      'refused', 'conflict', 'last', private.last_admin_action(format('address %s', block.address::inet))
    );
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  perform private.end_address_block(block, change);
  return '{}';
end
$$;

-- Lifts all blocks of an address's network, or of an account's recent networks. Returns these networks, or null if the
-- account doesn't exist. Only the operator's command line calls this function, for admins whose address is blocked.
-- Writes the audit log without an actor.
-- Definer: accounts and sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.unblock_address(
  reason text, of_address inet default null, account_email text default null
)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account_id uuid;
  networks cidr[];
  block private.address_blocks;
  lifted inet[] := '{}';
begin
  if num_nonnulls(of_address, account_email) <> 1 or coalesce(trim(reason), '') = '' then
    raise exception 'name an address or an account, and a reason' using errcode = 'invalid_parameter_value';
  end if;
  if of_address is not null then
    networks := array[private.address_network(of_address)];
  else
    select u.id into account_id
    from auth.users u
    where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
    if not found then
      return null;
    end if;
    networks := private.recent_networks(account_id);
  end if;
  -- A block that another caller lifts meanwhile no longer matches once its row is locked.
  for block in
    select b.*
    from private.address_blocks b
    where b.address = any (networks) and b.lifted_at is null and b.blocked_until > now()
    order by b.id
    for update
  loop
    perform private.end_address_block(block, jsonb_build_object('reason', reason));
    lifted := lifted || block.address::inet;
  end loop;
  return (select coalesce(jsonb_agg(distinct l.address), '[]') from unnest(lifted) as l (address));
end
$$;

-- Ends a block that is in force, and writes the audit log. The caller has locked the block.
create or replace function private.end_address_block(block private.address_blocks, change jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  select private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', format('address %s', block.address::inet),
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
$$;
