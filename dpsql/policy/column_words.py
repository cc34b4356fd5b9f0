"""Meaning of table and column names: words, identifiers of rows, and personal data.

Besides types and keys, a draft has only names to rely on. Conclusions from them are proposals; the
owner decides.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpsql.model.schema import SchemaTable
from dpsql.model.table_names import shown

Words = tuple[str, ...]

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_]+")
_LONGEST_PREFIX = 3

WEAK_ROW_WORDS = frozenset("no nr num number code".split())
"""Last word of a column that may also name what a row is of: a diagnosis, a page."""
ROW_WORDS = WEAK_ROW_WORDS | frozenset("id key sk pk uuid guid".split())
"""Last word of a column that names rows and does not measure anything."""

_NO_AMOUNTS = ROW_WORDS | frozenset(
    "zip zipcode postcode postal upc ean isbn sku year quarter month week weekday day hour".split()
)
"""Last word of a number that is never summed."""

PEOPLE = frozenset(
    "account borrower child citizen client contact customer donor driver employee guest household "
    "individual learner member participant passenger patient payer person player pupil "
    "resident respondent staff student subject subscriber tenant traveller user visitor voter "
    "worker".split()
)
"""Names of tables of people, in singular."""

_ALWAYS = frozenset(
    "email mail phone telephone mobile fax ssn passport iban password passwd surname lastname "
    "firstname forename fullname nickname username login street imei cookie latitude longitude "
    "lat lon lng gps ip mrn".split()
)
"""Words that name a person, or a way to one, in any context."""

_ALONE = frozenset("address addr name".split())
"""Words that do so together with words of people, or in a table of people."""

_PARTS_OF_NAMES = frozenset("first last middle maiden given family".split())
"""Words that are a person's name where they are a whole column of a table of people."""

_FREE_TEXT = frozenset({("note", "text"), ("free", "text"), ("source", "value")})
"""Last words of a column in which anything may be written, as it came from elsewhere."""

_TEXTS = frozenset("notes comment comments remarks narrative memo".split())

_PROPERTIES = frozenset("model type brand vendor os version flag count verified confirmed".split())
"""Last word of a property of a device or an account: `MobilePhoneModel`."""

_QUESTIONS = frozenset("is has can did was".split())
"""First word of what is true or false: `IsMobile`."""

_PERSONAL = PEOPLE | frozenset("first last full middle maiden given family display home".split())


@lru_cache(maxsize=1 << 14)
def words(name: str) -> Words:
    """Return the words of a name, in lower case.

    >>> words("customerId"), words("cs_bill_customer_sk"), words("IPAddress2")
    (('customer', 'id'), ('cs', 'bill', 'customer', 'sk'), ('ip', 'address', '2'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


_IRREGULAR = {"people": "person", "persons": "person", "children": "child"}


def singular(name: str) -> str:
    """Return the singular of a word.

    >>> singular("households"), singular("companies"), singular("address"), singular("people")
    ('household', 'company', 'address', 'person')
    """
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def table_words(table: SchemaTable) -> Words:
    """Return the words of a table's name without its schema, the last in singular."""
    *before, last = words(shown(table.name)[1]) or (table.name.lower(),)
    return (*before, singular(last))


def column_words(table: SchemaTable, column: str) -> Words:
    """Return the words of a column, without a short prefix that all columns of its table share.

    >>> from dpsql.model.schema import SchemaColumn
    >>> columns = tuple(SchemaColumn(name, None, "") for name in ("c_id", "c_name"))
    >>> column_words(SchemaTable("customer", columns), "c_id")
    ('id',)
    """
    own = words(column)
    if len(own) < 2 or len(own[0]) > _LONGEST_PREFIX:  # noqa: PLR2004
        return own
    names = tuple(c.name for c in table.columns if c.reading is None)
    shared = len(names) > 1 and len({words(name)[:1] for name in names}) == 1
    return own[1:] if shared else own


def is_of_people(table: SchemaTable) -> bool:
    """Test whether a table's name is a word for people."""
    return table_words(table)[-1] in PEOPLE


def names_rows(column: Words) -> bool:
    """Test whether the last word means that a column names rows."""
    return column[-1:] != () and column[-1] in ROW_WORDS


def is_amount(column: Words) -> bool:
    """Test whether a number of this name may be summed.

    >>> [is_amount(words) for words in (("page", "number"), ("value", "as", "number"))]
    [False, True]
    """
    return column[-2:] == ("as", "number") or not (column and column[-1] in _NO_AMOUNTS)


def identifies(table: SchemaTable, column: str) -> bool:
    """Test whether a column looks like a person's name, or a way to a person.

    >>> people = SchemaTable("users", ())
    >>> [identifies(people, c) for c in ("name", "email", "homeAddress", "address_id", "country")]
    [True, True, True, False, False]
    >>> [identifies(SchemaTable("products", ()), c) for c in ("name", "contact_phone")]
    [False, True]
    >>> [identifies(people, c) for c in ("FIRST", "MRN", "gender_source_value", "IsMobile")]
    [True, True, True, False]
    """
    own = column_words(table, column)
    if _QUESTIONS & {*own[:1]} or _PROPERTIES & {*own[-1:]}:
        return False
    if own[-2:] in _FREE_TEXT or _TEXTS & {*own[-1:]}:
        return True
    if is_of_people(table) and len(own) == 1 and own[0] in _PARTS_OF_NAMES:
        return True
    if names_rows(own):
        return "ssn" in own or "passport" in own
    if _ALWAYS & {*own}:
        return True
    personal = bool(_PERSONAL & {*map(singular, own)})
    return bool(_ALONE & {*own}) and (personal or is_of_people(table))


_NAMES = frozenset(
    "surname lastname firstname forename givenname fullname nickname username".split()
)
_IDENTITY = frozenset("ssn passport iban mrn nino nhs cpr bsn personnummer tin".split())
_BIRTH = frozenset("dob birthdate birthday birthdatetime dateofbirth".split())
_OF_BIRTH = frozenset("date day datetime month year dt".split())


def personal_data(table: SchemaTable, column: str) -> str | None:
    """Return the kind of personal data that a column looks like (names, birth dates or identity
    numbers of people), or None.

    >>> people, shops = SchemaTable("users", ()), SchemaTable("shops", ())
    >>> [personal_data(people, c) for c in ("name", "date_of_birth", "PassportNo", "name_id")]
    ['names of people', 'birth dates', 'identity numbers', None]
    >>> [personal_data(shops, c) for c in ("name", "birthplace", "owner_last_name", "SSN")]
    [None, None, 'names of people', 'identity numbers']
    """
    own = {*column_words(table, column)}
    if own & _BIRTH or ("birth" in own and own & _OF_BIRTH) or own == {"born"}:
        return "birth dates"
    if own & _IDENTITY or {"social", "security"} <= own or {"national", "id"} <= own:
        return "identity numbers"
    if names_rows(column_words(table, column)):
        return None
    personal = is_of_people(table) or _PERSONAL & {*map(singular, own)}
    return "names of people" if own & _NAMES or ("name" in own and personal) else None


def is_surrogate(table: SchemaTable, key: str) -> bool:
    """Test whether a key's name mentions neither its table nor people: it may be any table's."""
    return not {*map(singular, words(key))} & {*table_words(table), *PEOPLE}


def names_of_key(table: SchemaTable, key: str, *, is_own: bool = True) -> frozenset[Words]:
    """Return names that other tables use for a key: its own, or its table's if it `is_own`.

    >>> sorted(names_of_key(SchemaTable("patients", ()), "Id"))
    [('patient',), ('patient', 'id')]
    """
    of_table = tuple(map(singular, table_words(table)))
    own = tuple(map(singular, column_words(table, key)))
    names = {of_table, (*of_table, *own[-1:])} if is_own else set[Words]()
    if not is_own or not is_surrogate(table, key):
        names |= {own} - {()}
    return frozenset(names)


def ends_with(column: str, names: frozenset[Words]) -> bool:
    """Test whether the last words of a column are one of these names.

    >>> names = frozenset({("patient",)})
    >>> [ends_with(column, names) for column in ("PATIENT", "referred_patients", "patient_class")]
    [True, True, False]
    """
    own = tuple(map(singular, words(column)))
    return any(own[-len(name) :] == name for name in names)
