-- Refuses names of roles that pass for another role (Unicode TR39, Security Mechanisms).

-- Raises check_violation of recognizable_name if a new or changed name has invisible characters outside emoji, or
-- full-width, mathematical or enclosed letters, or a word that mixes Latin letters with those of a script that looks
-- like it, or a word that looks like owner, admin or member without being it. A name that stays is not checked, so that
-- the permissions of every existing role can change.
create or replace function private.require_recognizable_name() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  emoji constant text := '[\u00a9\u00ae\u203c\u2049\u2122\u2190-\u21ff\u2300-\u2379\u237b-\u23ff\u25a0-\u27bf\u2900-\u297f'
    '\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f200-\U0001faff][\ufe0e\ufe0f]?';
  separator constant text := '[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b\u007d\u007e\u00a1-\u00a9\u00ab-\u00b4'
    '\u00b6-\u00b9\u00bb-\u00bf\u2000-\u206f\u3000-\u3006\u3008-\u303f]+';
  latin constant text := '[A-Za-z\u00aa\u00ba\u00c0-\u02af\u1d00-\u1d7f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff]';
  -- Greek, Coptic, Cyrillic, Armenian, Cherokee, Canadian syllabics, Tifinagh, Lisu, and old scripts.
  similar_scripts constant text := '[\u0370-\u058f\u13a0-\u167f\u1c80-\u1c8f\u1f00-\u1fff\u2c80-\u2cff\u2d30-\u2d7f\u2de0-\u2dff'
    '\ua4d0-\ua4ff\ua640-\ua69f\uab70-\uabbf\U00010280-\U000104ff]';
  shown text;
  word text;
  plain text;
  letter text;
  lookalikes text;
begin
  if tg_op = 'UPDATE' and new.name = old.name then
    return new;
  end if;
  -- Emoji that are letters count as letters. Other emoji, with what joins them, separate words.
  shown := regexp_replace(new.name, '([\u2139\u24c2\U0001f170\U0001f171\U0001f17e\U0001f17f])\ufe0f', '\1', 'g');
  shown := regexp_replace(
    shown,
    '\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f|[0-9#*]\ufe0f?\u20e3|' || emoji || '(\u200d?' || emoji || ')*',
    ' ', 'g'
  );
  if shown ~ ('[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164'
      '\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff'
      '\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7cb\U0001f130-\U0001f169\U0001f172-\U0001f17d\U0001f180-\U0001f189]') then
    raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
  end if;
  for word in select regexp_split_to_table(shown, separator) loop
    plain := regexp_replace(
      normalize(word, nfkd), '[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]', '', 'g'
    );
    for letter, lookalikes in
      values
        ('a', '[\u0251\u0391\u03b1\u0410\u0430\u13aa\u15c5\u1d00\u237a\u2c80\u2c81\ua4ee\U0001f170]'),
        ('b', '[\u0180\u0184\u0253\u0299\u0392\u03b2\u0412\u0432\u042c\u044c\u13cf\u13f4\u1472\u15af\u15f7\u2c82\u2c83'
          '\ua4d0\U0001f171]'),
        ('d', '[\u00d0\u00f0\u0110\u0111\u0189\u0256\u0257\u0500\u0501\u13a0\u13e7\u146f\u15de\u1d05\ua4d3]'),
        ('e', '[\u0246\u0247\u025b\u0395\u03b5\u0415\u0435\u0454\u04bc\u04bd\u13ac\u1d07\u212e\u2c88\u2c89\ua4f0]'),
        ('i', '[1l|\u0131\u0196\u01c0\u0268\u0269\u026a\u0399\u03b9\u0406\u0456\u04c0\u04cf\u05c0\u05d5\u05df\u0627\u0661'
          '\u06f1\u07ca\u13a5\u2223\u2c92\u2c93\u2d4f\ua4f2]'),
        ('m', '[\u0271\u039c\u03fa\u041c\u043c\u13b7\u15f0\u1d0d\u2c98\u2c99\ua4df]'),
        ('n', '[\u014a\u014b\u0274\u039d\u03b7\u041f\u043f\u0578\u057c\u2c9a\ua4e0]'),
        ('o', '[0\u00d8\u00f8\u0275\u039f\u03bf\u03c3\u041e\u043e\u04e8\u04e9\u0555\u0585\u05e1\u0647\u0665\u06be\u06c1'
          '\u06d5\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20\u0d66\u0e50\u0ed0\u101d\u1040\u10ff'
          '\u12d0\u1d0f\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\U00010404\U0001042c\U000104c2\U000104ea\U0001f17e]'),
        ('r', '[\u027c\u027e\u0280\u0433\u0491\u13a1\u13d2\u1d26\u2c85\ua4e3\uab47\uab48\uab81]'),
        ('w', '[\u026f\u03c9\u0428\u0448\u0460\u0461\u051c\u051d\u0561\u13b3\u13d4\u1d21\u2cb1\ua4ea]')
    loop
      plain := regexp_replace(plain, lookalikes, letter, 'g');
    end loop;
    if word ~ latin and word ~ similar_scripts
      or lower(word) not in ('owner', 'admin', 'member')
        and replace(replace(lower(plain), 'rn', 'm'), 'vv', 'w') in ('owner', 'admin', 'member') then
      raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
    end if;
  end loop;
  return new;
end
$$;

create or replace trigger require_recognizable_name before insert or update of name on public.workspace_roles
  for each row execute function private.require_recognizable_name();
