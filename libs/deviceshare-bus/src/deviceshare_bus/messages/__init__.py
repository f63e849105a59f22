"""The subjects and messages of the bus, who may write them, and what makes one valid. Pure.

Reading order: :mod:`.subjects` (streams and subjects), :mod:`.codec` (messages and their encoding), :mod:`.validation`
(the rules of each message), :mod:`.permissions` (the users of the bus), :mod:`.leases`; :mod:`.known_items` and
:mod:`.sharing` decode large messages at little cost.
"""
