"""The Tabular Data Stream, version 7.4, from the server's side.

What the drivers say is in [MS-TDS]_; section numbers in this package's comments are that document's.

* ``transport``, ``packets``, ``prelogin``, ``login7``: bytes to messages, TLS, who is there;
* ``requests``, ``parameters``, ``procedures``: what the client asks for;
* ``tokens``, ``type_info``, ``collations``: what the answer is made of;
* ``plain``, ``columns``, ``rows``: stored values to bytes, one by one and a column at a time;
* ``inbox``, ``answer``, ``connection``: one client, from its first packet to its last.

.. [MS-TDS] https://learn.microsoft.com/openspecs/windows_protocols/ms-tds
"""
